// Two trials beside each other, from where they part. `difference.js` finds what differs, this draws it: each difference
// is a stop, which n and p walk to.

const FIRST_ROWS = 3;
const MORE_ROWS = 60;
const MOST_MS = 40;
const MOST_OF_RUN = 4000;
const MOST_RUN_LINES = 16;
const MOST_BEHIND = 60;
const BOTH = ['old', 'new'];

// ---- texts: words that one side lacks are marked, long equal parts are left out

const sizeOfText = (text) => {
  const lines = text.split('\n').length - 1;
  return lines > 1 ? plural(lines, 'line') : size(text.length);
};

// `side` is `both` where there is one column for the words of both.
class DiffText extends Component {
  constructor(props) {
    super(props);
    this.state = {whole: false};
  }

  render({runs, side, mono}, {whole}) {
    const all = whole || view.printing, more = (words) => html`<button class="more" onClick=${() => this.setState({whole: true})}>${words}</button>`;
    const written = (text) => {
      const shown = all ? text : text.slice(0, MOST_OF_RUN).split('\n').slice(0, MOST_RUN_LINES).join('\n'), rest = text.slice(shown.length);
      return rest.trim() ? html`${breakableText(plain(shown))} ${more(`${sizeOfText(rest)} more: show`)}` : breakableText(plain(text));
    };
    const draw = ([tag, text]) => {
      if (tag === '-') return side !== 'new' && html`<del>${written(text)}</del>`;
      if (tag === '+') return side !== 'old' && html`<ins>${written(text)}</ins>`;
      if (tag === '=') return written(text);
      return html`<span class="left-out">${more(html`… ${sizeOfText(text)} the same<span class="unseen">: show</span>`)}${'\n'}</span>`;
    };
    return html`<pre class="words ${side} ${mono ? 'mono' : ''}" dir="auto">${(all ? runs : foldRuns(runs)).map(draw)}</pre>`;
  }
}

// `given` are the texts where one of them may not be there at all; short ones stand behind their label.
function Texts({label, difference, given = ['', ''], mono = false}) {
  const sides = NARROW.matches ? ['both'] : BOTH, isShort = label && sides.length > 1 && given.every((text) => text === null || (text.length < MOST_BEHIND && !text.includes('\n')));
  const words = (side, at) => (given[at] === null && side !== 'both' ? html`<p class="words dim">not there</p>` : html`<${DiffText} runs=${difference.runs} side=${side} mono=${mono} />`);
  if (isShort) return html`<div class="texts two short">${sides.map((side, at) => html`<div><h4>${plain(label)}</h4>${words(side, at)}</div>`)}</div>`;
  return html`<div class="texts">${label && html`<h4>${plain(label)}</h4>`}
    ${difference.is_coarse && html`<p class="dim">Parts are too long to be compared word by word.</p>`}
    <div class="two">${sides.map(words)}</div></div>`;
}

// ---- steps of the conversation

const WholeStep = ({step: {message, call}}) => (call ? html`<${Call} call=${call} />` : html`<${Message} message=${{...message, calls: []}} />`);

function countSteps(steps) {
  const calls = steps.filter((step) => step.call).length;
  return [[steps.length - calls, 'message'], [calls, 'call']].filter(([count]) => count).map((pair) => plural(...pair)).join(', ');
}

// What is the same in both is drawn when it is opened.
class Same extends Component {
  constructor(props) {
    super(props);
    this.state = {open: false};
  }

  render({steps}, {open}) {
    return html`<details class="fold same" onToggle=${(event) => this.setState({open: event.target.open})}><summary>${countSteps(steps)} the same</summary>
      <div class="inside">${(open || view.printing) && steps.map((step) => html`<${WholeStep} step=${step} />`)}</div></details>`;
  }
}

function stepWords({message, call}) {
  const facts = [message.turn > 0 && `turn ${message.turn}`, !call && message.seconds !== null && duration(message.seconds)].filter(Boolean);
  return [call ? call.tool : message.role, facts.join(' · ')];
}

function StepHead({step}) {
  const [name, facts] = stepWords(step);
  return html`<p class="step-head"><b class=${step.call ? 'tool' : 'role'}>${plain(name)}</b> <span class="dim">${facts}</span></p>`;
}

const PART_NAMES = {__proto__: null, [RESULT_LABEL]: 'Result', [ERROR_LABEL]: 'Error', [REPLY_LABEL]: 'Shown to the model'};

// Two steps of one kind, part by part: drawn once, for a long conversation is drawn some rows at a time.
class Pairing extends Component {
  shouldComponentUpdate({parts, narrow, printing}) {
    return parts !== this.props.parts || narrow !== this.props.narrow || printing !== this.props.printing;
  }

  render({old, now, parts, narrow}) {
    const same = parts.filter((part) => part.old === part.new), differing = parts.filter((part) => part.old !== part.new);
    const name = ({label}) => PART_NAMES[label] ?? label, thoughts = [old, now].some(({message, call}) => !call && message.reasoning);
    return html`<div class="two">${(narrow ? [now] : [old, now]).map((step) => html`<${StepHead} step=${step} />`)}</div>
      ${thoughts && html`<div class="two">${[old, now].map(({message}) => html`<div>${message.reasoning && html`<${Fold} kind="reasoning" title=${`Reasoning, ${size(message.reasoning.length)}`}><${Text} value=${message.reasoning} kind="prose" /><//>`}</div>`)}</div>`}
      ${differing.map((part) => html`<${Texts} label=${name(part)} difference=${part.difference} given=${[part.old, part.new]} mono=${old.call !== null} />`)}
      ${!differing.length && html`<p class="dim">They differ in parts that are not shown here.</p>`}
      ${same.length > 0 && html`<${Fold} kind="same" title=${`${same.map((part) => `${oneLine(name(part), 40)} ${oneLine(part.old, 40)}`).join(', ')}: the same`}>
        ${same.map((part) => html`<h4>${plain(name(part))}</h4><${Text} value=${part.old} />`)}<//>`}`;
  }
}

// Other steps stand beside each other as they are.
function Apart({steps, titles}) {
  return html`<div class="two">${steps.map((step, at) => html`<div class="one ${BOTH[at]} ${step ? '' : 'none'}">
    ${step ? html`<p class="only dim">${titles[at]}</p><${WholeStep} step=${step} />` : html`<p class="dim">no such step</p>`}</div>`)}</div>`;
}

// ---- grades

const gradeWords = (grade) => (grade ? (grade.score === null ? 'undecided' : figure(grade.value ?? grade.score)) : 'not graded');
const checkSign = (check) => (check ? html`<b class="mark ${check.passed ? 'good' : 'bad'}" role="img" aria-label=${check.passed ? 'passed' : 'not passed'}>${check.passed ? '✓' : '✕'}</b>` : html`<span class="dim">none</span>`);

const foundOf = (flip, old, now) => [flip.old === null ? null : old.checks[flip.old], flip.new === null ? null : now.checks[flip.new]];
const saysExpected = ({claim, expected}) => claim.includes(expected.replace('a match of ', ''));

// What several checks of one answer found stands there once.
function Flip({flip, last, old, now, titles}) {
  const checks = foundOf(flip, old, now), failed = checks.find((check) => check && !check.passed), before = last ? foundOf(last, old, now) : [];
  const isPlain = failed && failed.expected === 'yes' && failed.found === 'no';
  const isNew = !isPlain && checks.some((check, side) => check && check.found && check.found !== before[side]?.found);
  return html`<li><p class="claim">${checkSign(checks[0])} <span class="dim">→</span> ${checkSign(checks[1])} ${plain(flip.claim)}</p>
    ${failed && failed.expected && !isPlain && !saysExpected(failed) && html`<p class="expected"><span class="dim">expected</span> ${oneLine(failed.expected, 300)}</p>`}
    ${isNew && html`<div class="two found">${checks.map((check, side) => html`<p>${check && check.found && html`<span class="only dim">${titles[side]} </span><span class="dim">found</span> ${oneLine(check.found, 300)}`}</p>`)}</div>`}</li>`;
}

function GradeChange({change, old, now, at, total, titles}) {
  const before = change.old === null ? null : old.grades[change.old], after = change.new === null ? null : now.grades[change.new];
  const fell = before && after && (after.score ?? 0) < (before.score ?? 0), turned = before && after && before.passed !== after.passed;
  const says = before && after && !change.flips.length && (before.rationale || after.rationale);
  const words = `${plain(change.grader)}, ${gradeWords(before)} to ${gradeWords(after)}`;
  return html`<${Stop} kind="grade ${fell ? 'bad' : 'good'}" at=${at} total=${total} words=${words}>
    <header><h3>${plain(change.grader)}</h3> <span class="number">${gradeWords(before)} → <b>${gradeWords(after)}</b></span>
      ${turned && html`<span class="state ${after.passed ? 'good' : 'bad'}">${gradeState(before)[0]} → ${gradeState(after)[0]}</span>`}</header>
    ${says && html`<${Texts} difference=${compareTexts(before.rationale, after.rationale)} />`}
    ${change.flips.length > 0 && html`<ul class="checks flips">${change.flips.map((flip, place) => html`<${Flip} flip=${flip} last=${change.flips[place - 1]} old=${before} now=${after} titles=${titles} />`)}</ul>`}
    ${[before, after].some((grade) => grade?.votes.length) && html`<div class="two">${[before, after].map((grade) => html`<div>${grade && html`<${Votes} votes=${grade.votes} />`}</div>`)}</div>`}
  <//>`;
}

// ---- what stands around the conversation

const Stop = ({kind = '', at, total, words, children}) => html`<article class="stop ${kind}" data-stop=${at} tabindex="-1" aria-label=${`Difference ${at + 1} of ${total}: ${words}`}>${children}</article>`;

function FilePair({pair, old, now}) {
  const files = [pair.old === null ? null : old.files[pair.old], pair.new === null ? null : now.files[pair.new]];
  if (files[0] && files[1]) return html`<p class="step-head"><b class="path">${plain(pair.path)}</b> <span class="dim">changed differently</span></p><${Texts} difference=${compareFiles(...files)} mono />`;
  return html`<div class="two">${files.map((file, at) => html`<div class="one ${BOTH[at]}">${file ? html`<${FileChange} file=${file} />` : html`<p class="step-head"><b class="path">${plain(pair.path)}</b> <span class="dim">not changed</span></p>`}</div>`)}</div>`;
}

function EventLine({events}) {
  const kind = (event) => plain(event.kind).replaceAll('_', ' ');
  const words = (event) => (event.old !== event.new ? html`<b>${kind(event)} ${count(event.old)} → ${count(event.new)}</b>` : `${count(event.new)} ${kind(event)}${event.is_same ? ' as before' : ', with other text'}`);
  return html`<p class="event-line">${events.map((event, at) => html`${at > 0 && ' · '}<span class=${changedEvent(event) ? '' : 'dim'}>${words(event)}</span>`)}</p>`;
}

const changedEvent = (event) => !event.is_same && !event.is_routine;

// What two trials took, as far as it is known.
function Took({places}) {
  const [old, now] = places.map((place) => TRIALS[place]);
  const facts = [['seconds', duration, ''], ['tokens', short, ' tokens'], ['usd', money, '']].filter(([key]) => old[key] || now[key]);
  return facts.map(([key, write, unit]) => html` · <span class="took">${[...new Set([old, now].map((trial) => (trial[key] === null ? 'unknown' : write(trial[key]))))].join(' → ')}${unit}</span>`);
}

function Summary({found, places}) {
  const what = found.made_of.length ? html`changed: <b>${found.made_of.join(', ')}</b>` : 'no difference in task, prompts, settings, tools or code';
  return html`<div class="two reasons">${places.map((place) => html`<p class="dim">${oneLine(TRIALS[place].reason, 180) || 'all checks passed'}</p>`)}</div>
    <p class="made dim">${what}<${Took} places=${places} /></p>`;
}

// ---- all of it

class Beside extends Component {
  constructor(props) {
    super(props);
    this.state = {at: -1, rows: MORE_ROWS};
    this.known = {};
    this.needed = this.drawn = 0;
    this.holds = (whole) => { if (whole) this.whole = whole; };
  }

  componentDidMount() { Beside.shown = this; this.componentDidUpdate(); }

  componentWillUnmount() {
    clearTimeout(this.later);
    if (Beside.shown === this) Beside.shown = null;
  }

  // The first rows are there at once, the others some at a time: long texts take a while to compare.
  componentDidUpdate() {
    clearTimeout(this.later);
    if (this.drawn < Math.min(this.known.rows?.length ?? 0, this.state.rows)) this.later = setTimeout(() => this.setState({}), 0);
  }

  // What was found of two trials is kept while they are shown.
  find(old, now) {
    if (this.known.old === old && this.known.now === now) return this.known;
    const found = compareTrials(old, now), steps = [trialSteps(old), trialSteps(now)];
    const rows = found.stretches.flatMap((stretch) => (stretch.is_same ? [] : stretch.rows));
    const stops = [...found.grades, ...rows, ...(found.has_answer ? [0] : []), ...(found.has_state ? [0] : []), ...found.files, ...(found.events.some(changedEvent) ? [0] : [])];
    this.known = {old, now, found, steps, rows, total: stops.length, parts: new Map()};
    return this.known;
  }

  partsOf(at, old, now) {
    const {parts} = this.known;
    if (!parts.has(at)) parts.set(at, compareSteps(old, now));
    return parts.get(at);
  }

  // From the stop that has the focus or, where one has scrolled since, from what is in sight.
  move(by) {
    const {total = 0, found} = this.known;
    if (!total) return;
    const here = document.activeElement?.closest('[data-stop]')?.dataset.stop ?? (this.state.at >= 0 && Math.abs(scrollY - this.landed) < 2 ? this.state.at : null);
    let next = Number(here) + by;
    if (here === null) {
      const drawn = [...this.whole.querySelectorAll('[data-stop]')], top = this.bar.getBoundingClientRect().bottom;
      const away = (stop) => stop.getBoundingClientRect().top - top;
      next = Number((by > 0 ? drawn.find((stop) => away(stop) > 0) ?? drawn.at(-1) : drawn.findLast((stop) => away(stop) < 0) ?? drawn[0]).dataset.stop);
    }
    next = Math.max(0, Math.min(total - 1, next));
    // Of the conversation as much is drawn as lies above the stop.
    this.needed = Math.min(this.known.rows.length, next - found.grades.length + 1);
    this.setState({at: next, rows: Math.max(this.state.rows, this.needed)}, () => this.focus(next));
  }

  focus(at) {
    const stop = this.whole.querySelector(`[data-stop="${at}"]`);
    if (!stop) return;
    stop.focus({preventScroll: true});
    scrollTo(0, scrollY + stop.getBoundingClientRect().top - this.bar.getBoundingClientRect().height - GAP);
    this.landed = scrollY;
  }

  bars(sides, total) {
    const {at} = this.state, jump = (by, words, key, sign) => html`<button disabled=${!total} onClick=${() => this.move(by)}><span class="unseen">${words} difference </span>${sign} <kbd>${key}</kbd></button>`;
    return html`<div class="beside-bar two" ref=${(bar) => { if (bar) this.bar = bar; }}>
      ${sides.map(({title, place}) => html`<p class="side-title"><a href=${trialHash(place)}>${title}</a> <b class="ending ${TRIALS[place].ending}">${plain(TRIALS[place].ending)}</b> ${figure(TRIALS[place].score)}</p>`)}
      <p class="jumps"><span role="status" class="dim">${total === undefined ? '' : at < 0 || !total ? plural(total, 'difference') : `${at + 1} of ${count(total)}`}</span>
        ${jump(-1, 'Previous', 'p', '‹')}${jump(1, 'Next', 'n', '›')}</p></div>`;
  }

  conversation(from, titles) {
    const {found, steps, rows, total} = this.known, parts = [];
    const needed = view.printing ? Infinity : Math.max(FIRST_ROWS, this.needed), most = Math.max(needed, this.state.rows), started = performance.now();
    const enough = (row) => row >= most || (row >= needed && !this.known.parts.has(row) && performance.now() - started > MOST_MS);
    let at = 0, parted = false;
    for (const {is_same: same, rows: pairs} of found.stretches) {
      if (enough(at)) break;
      if (same) { parts.push(html`<${Same} key=${`same ${at}`} steps=${pairs.map(([, place]) => steps[1][place])} />`); continue; }
      for (const [one, other] of pairs) {
        const old = steps[0][one], now = steps[1][other], turn = (now ?? old).message.turn;
        if (enough(at)) break;
        if (!parted) parts.push(html`<p class="parting">first difference${turn > 0 ? `: turn ${turn}` : ''}</p>`);
        parted = true;
        const words = [old, now].filter(Boolean).map((step) => stepWords(step).filter(Boolean).join(', '));
        parts.push(html`<${Stop} key=${at} kind="row" at=${from + at} total=${total} words=${[...new Set(words)].join(' and ')}>
          ${old && now && old.kind === now.kind ? html`<${Pairing} old=${old} now=${now} parts=${this.partsOf(at, old, now)} narrow=${NARROW.matches} printing=${view.printing} />` : html`<${Apart} steps=${[old, now]} titles=${titles} />`}<//>`);
        at += 1;
      }
    }
    const left = rows.length - at;
    this.drawn = at;
    return html`${parts}${left > 0 && at >= this.state.rows && html`<button class="more" onClick=${() => this.setState({rows: this.state.rows + MORE_ROWS})}>Show ${plural(left, 'more step')} that differ${left === 1 ? 's' : ''}</button>`}`;
  }

  render({sides}) {
    const [old, now] = sides.map((side) => side.trial);
    if (!old || !now) {
      return html`<div class="beside" ref=${this.holds}>${this.bars(sides)}<div class="two">${sides.map(({place, trial, problem}) => html`<div>${!trial && html`<${Missing} place=${place} problem=${problem} loading=${problem === undefined} />`}</div>`)}</div></div>`;
    }
    const {found, rows, total} = this.find(old, now), titles = sides.map((side) => side.title), places = sides.map((side) => side.place);
    let stop = found.grades.length + rows.length;
    const next = () => stop++;
    return html`<div class="beside" ref=${this.holds}>${this.bars(sides, total)}<${Summary} found=${found} places=${places} />
      ${(found.grades.length > 0 || found.same_grades > 0) && html`<${Section} id="grades" title="Grades" note=${found.same_grades > 0 && `${plural(found.same_grades, 'grade')} as before`}>
        ${found.grades.map((change, at) => html`<${GradeChange} key=${at} change=${change} old=${old} now=${now} at=${at} total=${total} titles=${titles} />`)}<//>`}
      ${found.stretches.length > 0 && html`<${Section} id="conversation" title="Conversation">${this.conversation(found.grades.length, titles)}<//>`}
      ${found.has_answer && html`<${Section} id="answer" title="Answer"><${Stop} at=${next()} total=${total} words="the answers"><${Texts} difference=${this.texts('answer', () => compareTexts(old.answer, now.answer))} /><//><//>`}
      ${found.has_state && html`<${Section} id="state" title="End state"><${Stop} at=${next()} total=${total} words="the end state"><${Texts} difference=${this.texts('state', () => compareTexts(valueText(old.state), valueText(now.state)))} mono /><//><//>`}
      ${(found.files.length > 0 || found.same_files > 0) && html`<${Section} id="workspace" title="Workspace" note=${found.same_files > 0 && `${plural(found.same_files, 'file')} with the same changes`}>
        ${found.files.map((pair) => html`<${Stop} kind="row" at=${next()} total=${total} words=${`the file ${plain(pair.path)}`}><${FilePair} pair=${pair} old=${old} now=${now} /><//>`)}<//>`}
      ${found.events.length > 0 && html`<${Section} id="events" title="Events">${found.events.some(changedEvent)
        ? html`<${Stop} at=${next()} total=${total} words="events"><${EventLine} events=${found.events} /><//>` : html`<${EventLine} events=${found.events} />`}<//>`}
    </div>`;
  }

  texts(name, compare) {
    const {parts} = this.known;
    if (!parts.has(name)) parts.set(name, compare());
    return parts.get(name);
  }
}

const GAP = 12;
