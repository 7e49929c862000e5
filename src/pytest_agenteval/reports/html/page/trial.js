// One trial: the reason first, then what was said and done, then everything else.

const MOST_SHOWN = 200000;

// A text as it is: clamped by the style sheet, so that paper has all of it; what is huge is cut and says so.
class Text extends Component {
  constructor(props) {
    super(props);
    this.state = {open: false, whole: false};
  }

  render({value, kind = ''}, {open, whole}) {
    const text = plain(value), long = text.length > 4000 || text.split('\n', 61).length > 60;
    const shown = whole ? text : text.slice(0, MOST_SHOWN);
    return html`<div class="text ${kind} ${long && !open ? 'clamp' : ''}"><pre dir="auto">${breakableText(shown)}</pre>
      ${shown.length < text.length && html`<button class="more" onClick=${() => this.setState({open: true, whole: true})}>${size(text.length - shown.length)} more: show</button>`}
      ${long && html`<button class="more" aria-expanded=${open} onClick=${() => this.setState({open: !open})}>${open ? 'Show less' : `Show all ${size(text.length)}`}</button>`}</div>`;
  }
}

// JSON as people read it: the fields of an object each with its text, everything else indented.
function Json({value}) {
  if (typeof value !== 'object' || Array.isArray(value) || empty(value)) return html`<${Text} value=${value === null ? 'null' : value} kind="json" />`;
  return html`<dl class="fields">${Object.entries(value).map(([key, part]) => {
    const text = typeof part === 'string' ? part : JSON.stringify(part), inline = text.length < 90 && !text.includes('\n');
    return html`<div class=${inline ? 'inline' : ''}><dt>${plain(key)}</dt><dd><${Text} value=${inline ? text : part} kind="json" /></dd></div>`;
  })}</dl>`;
}

const Fold = ({title, children, open, kind = ''}) => html`<details class="fold ${kind}" open=${open}><summary>${title}</summary><div class="inside">${children}</div></details>`;
const Section = ({id, title, note, children}) => html`<section class="part" id=${id} aria-label=${title}><h2 tabindex="-1">${title}${note && html` <span class="dim">${note}</span>`}</h2>${children}</section>`;

// ---- the reason

// What passed is one line: what was found is what was expected.
function Checks({checks}) {
  return html`<ul class="checks">${checks.map((check) => html`<li class=${check.passed ? 'good' : 'bad'}>
    <p class="claim"><b class="mark" role="img" aria-label=${check.passed ? 'passed' : 'not passed'}>${check.passed ? '✓' : '✕'}</b> ${plain(check.claim)}
      ${check.passed && html`${' '}<span class="dim">${oneLine(check.found, 160)}</span>`}</p>
    ${!check.passed && (check.expected !== '' || check.found !== '') && html`<dl class="sides">
      <div><dt>expected</dt><dd><${Text} value=${check.expected} /></dd></div><div><dt>found</dt><dd><${Text} value=${check.found} /></dd></div></dl>`}
  </li>`)}</ul>`;
}

function Votes({votes}) {
  return html`<ul class="votes">${votes.map((vote) => html`<li><p><b>${plain(vote.judge)}</b>
    ${Object.entries(vote.scores ?? {}).map(([dimension, score]) => html` <span class="vote">${plain(dimension)} <b>${score === null ? 'undecided' : figure(score)}</b></span>`)}</p>
    ${vote.problem && html`<p class="warning">${plain(vote.problem)}</p>`}
    ${vote.rationale && html`<${Text} value=${vote.rationale} kind="prose" />`}</li>`)}</ul>`;
}

function gradeState({passed, required}) {
  return passed === null ? ['undecided', 'dim'] : passed ? ['passed', 'good'] : [required ? 'not passed, required' : 'not passed', 'bad'];
}

function Grade({grade}) {
  const [state, kind] = gradeState(grade), missed = grade.checks.filter((check) => !check.passed), met = grade.checks.filter((check) => check.passed);
  // The rationale of checks only lists them again.
  const rationale = grade.rationale && !missed.length && grade.rationale;
  return html`<article class="grade ${kind}">
    <header><h3>${plain(grade.grader)}</h3> <span class="state ${kind}">${state}</span>
      <span class="number">${grade.score === null ? plain(grade.undecided).replaceAll('_', ' ') : figure(grade.value ?? grade.score)}
        ${grade.score !== null && html`<span class="dim">, needs ${figure(grade.threshold)}</span>`}</span>
      ${grade.weight !== 1 && html`<span class="dim">weight ${String(grade.weight)}</span>`}</header>
    ${rationale && html`<${Text} value=${rationale} kind="prose" />`}
    ${missed.length > 0 && html`<${Checks} checks=${missed} />`}
    ${grade.votes.length > 0 && html`<${Votes} votes=${grade.votes} />`}
    ${met.length > 0 && html`<${Fold} title=${`${plural(met.length, 'check')} passed`}><${Checks} checks=${met} /><//>`}
    ${!empty(grade.details) && html`<${Fold} title="Details"><${Json} value=${grade.details} /><//>`}
  </article>`;
}

function Reason({trial}) {
  // What nobody could decide is no reason, unless judges said something of it.
  const undecided = trial.grades.filter((grade) => grade.passed === null && !grade.votes.length && !grade.checks.length);
  const passed = trial.grades.filter((grade) => grade.passed === true), open = trial.grades.filter((grade) => !passed.includes(grade) && !undecided.includes(grade));
  const folds = [[undecided, 'undecided'], [passed, 'passed']].filter(([grades]) => grades.length);
  return html`<${Section} id="reason" title="Why">
    ${trial.reason && html`<p class="lead ${trial.ending}">${plain(trial.reason)}</p>`}
    ${trial.limit && html`<p class="warning">The trial reached its limit: ${plain(trial.limit)}.</p>`}
    ${trial.message && trial.ending === 'errored' && html`<${Text} value=${trial.message} kind="error" />`}
    ${trial.traceback && html`<${Fold} title="Traceback"><${Text} value=${trial.traceback} /><//>`}
    ${open.map((grade) => html`<${Grade} grade=${grade} />`)}
    ${folds.map(([grades, state]) => html`<${Fold} kind="grades" title=${`${plural(grades.length, 'grader')} ${state}: ${grades.map((grade) => plain(grade.grader)).join(', ')}`}>
      ${grades.map((grade) => html`<${Grade} grade=${grade} />`)}<//>`)}
    ${!trial.grades.length && !trial.message && html`<p class="dim">Nothing was graded.</p>`}
  <//>`;
}

// ---- the conversation

const TAPES = {__proto__: null, hit: ['replayed', 'dim'], live: ['live', 'accent'], miss: ['not recorded', 'bad']};

function Call({call}) {
  const args = call.raw_args ?? Object.values(call.args ?? {}).map((value) => oneLine(value, 60)).join(', ');
  const [tape, kind] = TAPES[call.tape] ?? [];
  return html`<details class="call ${call.error ? 'bad' : ''}"><summary>
      <span class="tool">${plain(call.tool)}</span><span class="args">(${oneLine(args, 120)})</span>
      <span class="result">${call.error ? html`<b class="bad">${oneLine(call.error.type, 60)}</b> ${oneLine(call.error.message, 120)}` : oneLine(call.result, 160) || (call.executed ? 'nothing' : 'not executed')}</span>
      ${tape && html`<span class="tape ${kind}">${tape}</span>`}${call.by === 'seed' && html`<span class="tape dim">from the task</span>`}
      <span class="dim time">${duration(call.ended - call.started)}</span></summary>
    <div class="inside">
      <h4>Arguments${call.raw_args !== null && ', not JSON'}</h4>${call.raw_args === null ? html`<${Json} value=${call.args} />` : html`<${Text} value=${call.raw_args} />`}
      ${call.error && html`<h4>Error</h4><${Text} value=${`${plain(call.error.type)}: ${plain(call.error.message)}`} kind="error" />`}
      ${(!call.error || !empty(call.result)) && html`<h4>Result</h4><${Json} value=${call.result} />`}
      ${call.reply && html`<h4>Shown to the model</h4><${Text} value=${call.reply} />`}
    </div></details>`;
}

function Message({message}) {
  const {role, content, calls, reasoning, usage, seconds, seeded, turn} = message, body = plain(content);
  const facts = [seeded && 'from the task', role === 'assistant' && turn > 0 && `turn ${turn}`, usage && (usage.input_tokens === null ? 'tokens unknown' : `${short(usage.input_tokens)} in, ${short(usage.output_tokens)} out`),
    seconds !== null && duration(seconds)].filter(Boolean).join(' · ');
  if (role === 'system') {
    return html`<${Fold} kind="message system" title=${html`<b class="role">system</b> <span class="dim preview">${oneLine(body, 140)}</span> <span class="dim">${size(body.length)}</span>`}>
      <${Text} value=${body} /><//>`;
  }
  return html`<article class="message ${role}"><header><b class="role">${plain(role)}</b> <span class="dim">${facts}</span></header>
    ${reasoning && html`<${Fold} kind="reasoning" title=${`Reasoning, ${size(reasoning.length)}`}><${Text} value=${reasoning} kind="prose" /><//>`}
    ${body && html`<${Text} value=${body} kind="prose" />`}
    ${calls.map((call) => html`<${Call} call=${call} />`)}
    ${!body && !calls.length && html`<p class="dim">empty message</p>`}</article>`;
}

function Conversation({trial}) {
  if (!trial.messages.length) return null;
  const calls = trial.messages.reduce((sum, message) => sum + message.calls.length, 0);
  return html`<${Section} id="conversation" title="Conversation" note=${`${plural(trial.messages.length, 'message')}, ${plural(calls, 'call')}`}>
    ${trial.messages.map((message, place) => html`
      ${place > 0 && message.phase !== trial.messages[place - 1].phase && html`<p class="phase">conversation ${message.phase}: a new conversation, or earlier messages were rewritten</p>`}
      <${Message} message=${message} />`)}
  <//>`;
}

// ---- the workspace

// What a changed line shares with its other side at both ends stays plain, the rest is marked.
function Marked({line, other, tag: Tag}) {
  if (other === null || line === null) return plain(line);
  const most = Math.min(line.length, other.length);
  let head = 0, tail = 0;
  while (head < most && line[head] === other[head]) head += 1;
  while (tail < most - head && line.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  return html`${plain(line.slice(0, head))}<${Tag}>${plain(line.slice(head, line.length - tail))}<//>${plain(line.slice(line.length - tail))}`;
}

const DIFF_ROWS = {' ': 'same', '~': 'pair', '-': 'gone', '+': 'new'};

function Hunk({hunk}) {
  let old = hunk.old_start, now = hunk.new_start;
  return html`<tbody>${hunk.rows.map(([tag, before, after]) => html`<tr class=${DIFF_ROWS[tag]}>
    <td class="at old">${before === null ? '' : old++}</td><td class="old">${before !== null && tag !== ' ' && html`<span class="hidden">removed: </span>`}<${Marked} line=${before} other=${tag === '~' ? after : null} tag="del" /></td>
    <td class="at now">${after === null ? '' : now++}</td><td class="now">${after !== null && tag !== ' ' && html`<span class="hidden">added: </span>`}<${Marked} line=${after} other=${tag === '~' ? before : null} tag="ins" /></td>
  </tr>`)}</tbody>`;
}

function FileChange({file}) {
  const rows = file.hunks.flatMap((hunk) => hunk.rows), lines = (side) => rows.filter((row) => row[0] !== ' ' && row[side] !== null).length;
  return html`<details class="file" open><summary><span class="path">${plain(file.path)}</span> <span class="dim">${plain(file.change)}</span>${' '}
      <span class="good">+${lines(2)}</span> <span class="bad">−${lines(1)}</span></summary>
    ${file.note && html`<p class="dim note">${plain(file.note)}</p>`}
    ${rows.length > 0 && html`<table class="diff ${file.change === 'modified' ? '' : 'onesided'} ${file.change === 'deleted' ? 'removed' : ''}" aria-label=${`changes of ${plain(file.path)}, before and after`}>
      ${file.hunks.map((hunk, place) => html`${place > 0 && html`<tbody class="gap"><tr><td colspan="4">⋯</td></tr></tbody>`}<${Hunk} hunk=${hunk} />`)}</table>`}
  </details>`;
}

function Workspace({trial}) {
  if (!trial.files.length && !trial.files_left_out) return null;
  return html`<${Section} id="workspace" title="Workspace" note=${plural(trial.files.length + trial.files_left_out, 'file') + ' changed'}>
    ${trial.files.map((file) => html`<${FileChange} file=${file} />`)}
    ${trial.files_left_out > 0 && html`<p class="dim">${plural(trial.files_left_out, 'further file')} changed and not shown.</p>`}
  <//>`;
}

// ---- the rest

function Outcome({trial}) {
  const logs = [['Output', trial.output], ['Log', trial.log]].filter(([, text]) => text);
  return html`
    ${(trial.answer || !empty(trial.state)) && html`<${Section} id="answer" title="Answer">
      ${trial.answer && html`<${Text} value=${trial.answer} kind="prose" />`}
      ${!empty(trial.state) && html`<${Fold} title="State" open=${!trial.answer}><${Json} value=${trial.state} /><//>`}<//>`}
    ${trial.events.length > 0 && html`<${Section} id="events" title="Events"><ol class="events">
      ${trial.events.map((event) => html`<li><span class="dim time">${duration(event.at)}</span> <b>${plain(event.kind).replaceAll('_', ' ')}</b> ${plain(event.text)}
        ${!empty(event.details) && html`<${Fold} title="details"><${Json} value=${event.details} /><//>`}</li>`)}</ol><//>`}
    ${logs.map(([title, text]) => html`<${Section} id=${title.toLowerCase()} title=${title}><${Text} value=${text} /><//>`)}`;
}

function tapeFacts({hits = 0, misses = 0, recorded = 0} = {}) {
  return [hits && `${hits} replayed`, misses && `${misses} not recorded`, recorded && `${recorded} sent and recorded`].filter(Boolean).join(', ');
}

function usageFacts(usage) {
  if (!usage || !(usage.input_tokens !== 0 || usage.output_tokens !== 0 || usage.asks !== 0)) return '';
  // One reply may have only one of its two counts.
  if (usage.input_tokens === null || usage.output_tokens === null) return amount(usage.partial_tokens || usage.input_tokens + usage.output_tokens, 1, count);
  return `${count(usage.input_tokens)} in${usage.cached_tokens ? ` (${count(usage.cached_tokens)} cached)` : ''}, ${count(usage.output_tokens)} out`;
}

const cost = (usage) => (usage.cost_usd === null && usage.partial_cost_usd ? `${money(usage.partial_cost_usd)} + unknown` : money(usage.cost_usd));

function Facts({trial, run}) {
  const rows = [
    ['Model', [trial.model, trial.variant].filter(Boolean).join('@')], ['Agent', trial.agent], ['Suite', `${trial.suite}, ${trial.kind}`],
    ['Repetition', `${trial.repetition}${trial.attempt > 1 ? `, attempt ${trial.attempt}` : ''}`], ['Started', moment(trial.started_at)],
    ['Wall', trial.wall_seconds === null ? '' : duration(trial.wall_seconds)], ["Agent's time", duration(trial.seconds)],
    ['Turns p50 / p95', turnTimes({...trial.turns, turns_unknown: trial.turns.unknown}).replace('–', '')],
    ['Tokens', usageFacts(trial.usage)], ['Cost', usageFacts(trial.usage) && cost(trial.usage)],
    ['Judging', usageFacts(trial.judging) && `${usageFacts(trial.judging)}, ${cost(trial.judging)}`],
    ['Tool calls', tapeFacts(trial.tool_tape)], ['Model requests', tapeFacts(trial.chat_tape)],
    ['Tags', trial.tags.join(', ')], ['Task file', trial.file, breakable], ['Workspace', trial.workspace, breakable],
  ].filter(([, value]) => value);
  const digests = Object.entries(trial.digests ?? {}).filter(([, digest]) => !empty(digest));
  return html`<section class="facts" aria-label="Facts"><dl>${rows.map(([name, value, write = plain]) => html`<div><dt>${name}</dt><dd>${write(value)}</dd></div>`)}</dl>
    <p class="dim">In the terminal:</p><p><code class="command">${showCommand(trial.name, run)}</code></p>
    ${digests.length > 0 && html`<${Fold} title="Digests"><dl class="digests">${digests.map(([name, digest]) => html`<div><dt>${plain(name)}</dt><dd><code>${typeof digest === 'object' ? Object.entries(digest).map((pair) => html`${pair.map(plain).join(' ')}<br />`) : plain(digest)}</code></dd></div>`)}</dl><//>`}
  </section>`;
}

const PARTS = [Reason, Waterfall, Conversation, Workspace, Outcome];

// What the index knows of a trial that is not in the file, or not read yet, or not readable.
function Missing({place, problem, loading}) {
  const {reason, cause, name} = TRIALS[place];
  return html`<${Section} id="reason" title="Why">
    ${(reason || cause) && html`<p class="lead">${plain(reason || cause)}</p>`}
    ${loading ? html`<p class="dim loading" role="status">Reading the trial …</p>`
      : html`<p class="warning">${problem || plain(INDEX.left_out) || 'This trial is not in the file.'}</p><p><code class="command">${showCommand(name, RUNS[runOf(place)]?.name)}</code></p>`}
  <//>`;
}

// The sides that have trials of a task, the old one first.
const sidesOf = (task) => sideNumbers().sort((a, b) => (b === OLD) - (a === OLD)).filter((side) => task.sides[side].trials.length);

// Any other side's trial of the same repetition can stand beside one; the old side's has a button and a key.
function BesideAny({place, task}) {
  const {side: mine, repetition} = TRIALS[place], others = sidesOf(task).filter((side) => side !== mine);
  if (!others.some((side) => side !== OLD)) return null;
  const show = (event) => {
    const {trials} = task.sides[Number(event.target.value)], other = trials.find((each) => TRIALS[each].repetition === repetition) ?? trials[0];
    go(pairHash(...(mine === OLD || (TRIALS[other].side !== OLD && mine < TRIALS[other].side) ? [place, other] : [other, place])));
  };
  return html`<label class="choice"><span class="hidden">Put a trial of another side beside it</span><select class="beside-any" onChange=${show}>
    <option selected disabled>beside …</option>${others.map((side) => html`<option key=${side} value=${side}>${sideLabel(side)}</option>`)}</select></label>`;
}

function Title({place, opened, walk}) {
  const trial = TRIALS[place], task = trial.row, at = placeIn(walk), change = changeOf(task, trial.side);
  return html`<header class="trial-head ${trial.ending}">
    <p class="crumbs"><a href=${listHash(listQuery)}>← All tasks</a>
      <span class="dim">${plain(task.label)} · ${plain(task.bucket)}</span>
      <span class="steps">${at >= 0 && html`<span class="dim">${at + 1} of ${walk.length}</span>`}
        <button onClick=${() => step(-1)} disabled=${at <= 0} aria-label="Previous trial (k)">‹</button><button onClick=${() => step(1)} disabled=${at === walk.length - 1} aria-label="Next trial (j)">›</button>
        ${oldTrial(place) >= 0 && html`<button class="wordy" aria-pressed=${opened.beside} onClick=${toggleBeside}>${sideLabel(OLD)} beside it <kbd>o</kbd></button>`}<${BesideAny} key=${place} place=${place} task=${task} /><${KeysButton} /></span></p>
    <h1 tabindex="-1">${breakable(task.task)}</h1>
    <p class="summary"><b class="ending ${trial.ending}">${plain(trial.ending)}</b>
      <b class="score">${figure(trial.score)}</b>
      ${change !== null && html`<span class="dim">task ${figure(task.sides[OLD].score)} → ${figure(task.sides[trial.side].score)}</span> <${Change} value=${change} />`}
      ${sidesOf(task).map((side) => html`<span class="of-strip" key=${side}>${SIDES.length > 2 && html`<span class="dim">${sideLabel(side)}</span>`}<${Strip} places=${task.sides[side].trials} current=${place} most=${60} /></span>`)}
      <span class="dim">${[sideLabel(trial.side), trial.repetition && `repetition ${trial.repetition}`,
        duration(trial.seconds), trial.tokens === null ? 'tokens unknown' : `${short(trial.tokens)} tokens`, trial.attempts > 1 && `${trial.attempts} attempts in all`].filter(Boolean).join(' · ')}</span></p>
    <${TrialNote} place=${place} />
  </header>`;
}

function Sheet({place, trial, problem, loading}) {
  if (!trial) return html`<${Missing} place=${place} problem=${problem} loading=${loading} />`;
  return html`<div class="sheet"><div>${PARTS.map((Part) => html`<${Part} trial=${trial} />`)}</div><${Facts} trial=${trial} run=${RUNS[runOf(place)]?.name} /></div>`;
}

function Trial({place, opened, walk}) {
  const {trial, problem, loading, beside, old, oldProblem} = opened, other = oldTrial(place);
  const sides = [{title: other < 0 ? '' : sideLabel(OLD), place: other, trial: old, problem: oldProblem}, {title: sideLabel(TRIALS[place].side), place, trial, problem}];
  return html`<div class="trial" key=${trialKey(place)}>
    <${Title} place=${place} opened=${opened} walk=${walk} />
    ${beside && other >= 0 ? html`<${Beside} sides=${sides} />` : html`<${Sheet} place=${place} trial=${trial} problem=${problem} loading=${loading} />`}
  </div>`;
}
