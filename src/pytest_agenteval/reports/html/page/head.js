// The head: the verdict, every side's figures, what makes them doubtful, and chips that count what they show.
// The file holds a plain one for browsers without scripts; this one follows the address and a run that goes on.

const joined = (words) => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`);

// "Compared with fast: slow and oracle are better; mid: cannot tell". Sides of which the same is said stand together.
function verdictSentence(suite) {
  const groups = new Map();
  for (const side of sideNumbers()) {
    if (side === OLD) continue;
    const change = suiteChange(suite, side), says = change ? change.says || change.verdict || 'no verdict possible' : comparisonWith(side) ? 'cannot be compared' : 'not compared';
    groups.set(says, [...(groups.get(says) ?? []), side]);
  }
  const rank = ([says]) => (says.startsWith('better') ? 0 : says.startsWith('worse') ? 1 : 2);
  const parts = [...groups].sort((a, b) => rank(a) - rank(b)).map(([says, sides]) => {
    const names = joined(sides.map((side) => plain(SIDES[side].label)));
    return rank([says]) < 2 ? `${names} ${sides.length > 1 ? 'are' : 'is'} ${says}` : `${names}: ${says}`;
  });
  return `Compared with ${plain(SIDES[OLD].label)}: ${parts.join('; ')}.`;
}

const MOST_HEADLINE = 140;
const MOST_SUITE_COLUMNS = 4;

// Who beats whom, where that is short; else how each side compares with the old one.
function Headline() {
  if (!TRIALS.length) return html`<h1>No trials</h1>`;
  if (OLD === null) {
    return html`<h1>${SUITES.slice(0, 3).map(({label, sides: [all]}, at) => html`${at > 0 && ', '}${plain(label)} ${figure(all?.score)}${all?.mark}${interval(all?.low, all?.high)
      && html` <span class="interval">${interval(all.low, all.high)}</span>`}`)}${SUITES.length > 3 && ` and ${SUITES.length - 3} more`}</h1>`;
  }
  // A verdict of now may not hold at the end of a run.
  const soFar = goingOn().length > 0 && 'So far: ';
  const headline = (side) => plain(comparisonWith(side)?.headline).replaceAll(' -> ', '\u00a0→\u00a0');
  if (isPair() && headline(newSide())) return html`<h1>${soFar}${headline(newSide())}</h1>`;
  const verdicts = INDEX.verdicts.map(plain).join('; ');
  if (SUITES.length === 1 && verdicts && verdicts.length < MOST_HEADLINE) return html`<h1>${soFar}${verdicts}.</h1>`;
  const sentences = SUITES.slice(0, MOST_SUITE_COLUMNS).map((_, suite) => verdictSentence(suite)), others = SUITES.length - sentences.length;
  return html`<h1 class=${sentences.join('').length > MOST_HEADLINE ? 'long' : ''}>${SUITES.length > 1 ? sentences.map((sentence, suite) => html`<span class="of-suite"><b>${plain(SUITES[suite].label)}</b> ${sentence}</span>`) : soFar ? sentences.map((sentence) => sentence.replace(/^C/, 'So far, c')) : sentences}
    ${others > 0 && html`<span class="of-suite dim">${plural(others, 'more suite')}: below</span>`}</h1>`;
}

// ---- what each side took

const figureColumn = (key, write) => [(figures) => partlyKnown(figures, key, write), (figures) => whollyKnown(figures, key)];
// What a column shows of a side's figures; `number` is what a change is taken of, null where a part is unknown.
const FIGURES = [
  ['passed', 'passed', 'passed tasks, of all decided tasks; with several models, each task counts once for each model', (all) => `${count(all.tasks_passed)} of ${hasLanes() ? count(all.tasks_decided) : plural(all.tasks_decided, 'task')}`, (all) => all.tasks_passed],
  ['wall', 'wall', 'elapsed time from the first trial to the last', ...figureColumn('wall', duration)],
  ['time', 'agents’ time', 'the time of all agents added up: more than the wall time when trials run in parallel', ...figureColumn('seconds', duration)],
  ['tokens', 'tokens', 'input and output of all attempts', ...figureColumn('tokens', count)],
  ['cost', 'cost', 'of all attempts', ...figureColumn('usd', money)],
  ['turn', 'turn time', 'time of a model reply: median and 95th percentile', turnTimes, ({p50}) => p50],
];

// By how much a figure is larger or smaller, as the terminal has it: in percent, or how many times as large.
function byHowMuch(before, now) {
  if (!(before > 0)) return '';
  if (now >= 10 * before) return `${count(Number(fixed(now / before, 0)))} times`;
  const percents = (100 * (now - before)) / before, size = Math.abs(percents);
  return `${percents < 0 ? '−' : '+'}${fixed(size, size >= 1 ? 0 : 1)} %`;
}

// What a figure was before, and by how much it changed: a count in tasks. What reads the same is as before.
function difference(key, [now, is], [before, was]) {
  if (is === was) return 'as before';
  if (now === null || before === null) return `was ${was}`;
  const size = key === 'passed' ? `${now > before ? '+' : '−'}${count(Math.abs(now - before))}` : byHowMuch(before, now);
  return `${size && `${size}, `}was ${was}`;
}

// One side, or one before and one now: a row of figures.
function FigureStrip() {
  const now = SIDES[newSide()].figures, before = isPair() ? SIDES[OLD].figures : null;
  if (!now) return null;
  return html`<dl class="strip-of-figures">${FIGURES.map(([key, words, title, write, number]) => html`<div key=${key} title=${title}>
    <dt>${words}${key === 'turn' && html` <span class="dim">p50 / p95</span>`}</dt><dd>${write(now)}
      ${before && html`<span class="dim"> ${difference(key, [number(now), write(now)], [number(before), write(before)])}</span>`}</dd></div>`)}</dl>`;
}

// Of one suite the score with its interval and the verdict in words; of several the score and the change of each,
// whose intervals stand with the suites below.
function ScoreCells({suite, side, words, alone}) {
  const figures = SUITES[suite].sides[side], change = suiteChange(suite, side), plot = (content) => alone && html`<td class="plot-cell">${content}</td>`;
  if (!figures) return html`${plot('')}<td class="number dim" data-head=${words}>–</td><td class="says dim">no trials</td>`;
  return html`${plot(html`<${ScorePlot} figures=${figures} hollow=${side === OLD} />`)}
    <td class="number score-cell" data-head=${words}><b>${figure(figures.score)}${figures.mark}</b>${alone && html` <span class="dim">${interval(figures.low, figures.high)}</span>`}</td>
    <td class="says ${alone ? '' : 'brief'}">${side === OLD ? html`<span class="dim">old</span>` : change ? html`<${Verdict} change=${change} />${alone && html` <span class=${tone(change.verdict)}>${verdictWords(change)}</span>`}`
      : html`<span class="dim">${comparisonWith(side) ? 'cannot be compared' : 'not compared'}</span>`}</td>`;
}

// The words of a verdict and how sure it is.
function verdictWords({says, verdict, p, testable}) {
  return [plain(says || verdict) || 'no verdict possible', testable && typeof p === 'number' && probability(p)].filter(Boolean).join(', ');
}

// "9.2 s + unknown" takes two lines where there is no room for one.
const foldable = (text) => text.split(/ (?=\+ )/).map((part, at) => html`${at > 0 && ' '}<span class="unbroken">${part}</span>`);

function SideRow({side, suites, query}) {
  const {label, name, note, figures} = SIDES[side];
  const choose = () => goto({...query, old: side === INDEX.old ? '' : label});
  return html`<tr class=${side === OLD ? 'old' : ''}>
    <th scope="row"><label title=${canBeOld(side) ? `compare the others with ${plain(name)}` : 'with this many sides, each is compared only with the first'}><input type="radio" name="old" checked=${side === OLD} disabled=${!canBeOld(side)} onChange=${choose} aria-label=${`compare with ${plain(label)}`} /> ${plain(label)}</label>
      ${note && suites.length < 2 && html` <span class="dim">${plain(note)}</span>`}</th>
    ${suites.map((suite) => html`<${ScoreCells} key=${suite} suite=${suite} side=${side} alone=${suites.length === 1} words=${suites.length > 1 ? plain(SUITES[suite].label) : 'score'} />`)}
    ${FIGURES.map(([key, words, , write]) => html`<td key=${key} class="number of-${key}" data-head=${words}>${figures ? foldable(write(figures)) : '–'}</td>`)}
  </tr>`;
}

// Three sides and more: a line for each; the circle takes it as the old one.
function SidesTable({query}) {
  const suites = SUITES.length > MOST_SUITE_COLUMNS ? [] : SUITES.map((_, suite) => suite);
  return html`<div class="sides-table" tabindex="0" role="region" aria-label="Sides"><table>
    <thead><tr><th scope="col">compared with</th>
      ${suites.map((suite) => html`<th scope="col" key=${suite} colspan=${suites.length === 1 ? 3 : 2} class="score-head">${suites.length > 1 ? plain(SUITES[suite].label) : 'score'}</th>`)}
      ${FIGURES.map(([key, words, title]) => html`<th scope="col" key=${key} class="of-${key}" title=${title}>${words}${key === 'turn' && html` <span class="dim">p50 / p95</span>`}</th>`)}</tr></thead>
    <tbody>${sideNumbers().map((side) => html`<${SideRow} key=${SIDES[side].label} side=${side} suites=${suites} query=${query} />`)}</tbody></table></div>`;
}

// ---- runs, warnings, chips

function HeadRuns() {
  // Where a letter stands for a run it stands with the run.
  const lettered = INDEX.legend.length > 0 && SIDES.length > 1 && new Set(SIDES.map(({run}) => run)).size === SIDES.length;
  const role = (number) => (isPair() && RUNS.length === 2 ? (SIDES[OLD].run === number ? ' old' : ' new') : '');
  return html`<ul class="runs">${RUNS.map((run, number) => html`<li key=${number}>${lettered && html`<b>${plain(SIDES.find((side) => side.run === number)?.label)}</b> `}<code>${plain(run.name)}</code>${role(number)}
      ${run.started_at && html` <time datetime=${run.started_at}>${plain(run.started_at.slice(0, 16)).replace('T', ' ')}</time>`}${SIDES.length < 3 && run.notes.map((note) => html` <span class="note">${plain(note)}</span>`)}</li>`)}
    ${SIDES.length > 1 && !lettered && INDEX.legend.map((line) => html`<li key=${line}>${plain(line)}</li>`)}</ul>`;
}

function Warnings() {
  const runs = isPair() && RUNS.length === 2 ? [RUNS[SIDES[newSide()].run]] : RUNS;
  return html`${runs.flatMap((run) => run.warnings.map((warning) => html`<p class="warning" key=${warning}>${runs.length > 1 && `${plain(run.name)}: `}${plain(warning)}</p>`))}
    ${OLD !== null && goingOn().length > 0 && html`<p class="dim">The run is still going. Wait for its end: a verdict of an unfinished run is wrong more often.</p>`}
    ${INDEX.left_out && html`<p class="warning">${plain(INDEX.left_out)}</p>`}`;
}

function Chips({query}) {
  return html`<nav class="chips" aria-label="Filters">${chipCounts().map(([chip, tasks]) => {
    const press = (event) => { event.preventDefault(); goto({...query, show: toggled(query.show, chip)}); };
    return html`<a key=${chip} class="chip ${chip} ${tasks ? '' : 'none'}" data-filter=${chip} role="button" href="#/?show=${chip}" aria-pressed=${String(query.show.includes(chip))}
      title=${plural(tasks, 'task')} onClick=${press} onKeyDown=${(event) => { if (event.key === ' ') press(event); }}>${chip} <b>${count(tasks)}</b></a>`;
  })}</nav>`;
}

function Basis() {
  const others = sideNumbers().map(comparisonWith).filter((each) => each?.basis);
  if (!others.length) return null;
  const text = [INDEX.verdicts.map(plain).join('\n'), ...others.map(({new: side, basis}) => (isPair() ? plain(basis) : `${plain(SIDES[OLD].label)} -> ${plain(SIDES[side].label)}\n${plain(basis)}`))].filter(Boolean).join('\n\n');
  return html`<details class="rests-on"><summary>details of the verdict</summary><pre tabindex="0">${text}</pre></details>`;
}

// Drawn while they are open, as they are at first where three sides or more of one suite have to be told apart:
// pictures of several suites would leave no room for anything else.
class Pictures extends Component {
  constructor() {
    super();
    this.state = {open: SIDES.length > 2 && SUITES.length === 1};
  }

  render(_, {open}) {
    return html`<details class="rests-on pictures-of-list" open=${open} onToggle=${(event) => this.setState({open: event.target.open})}>
      <summary>${SIDES.length > 1 ? 'pictures: score against cost and time, spread of task scores' : 'picture: spread of task scores'}</summary>
      ${open && html`<${SuitePictures} index=${INDEX} old=${OLD} />`}</details>`;
  }
}

function Head({query}) {
  return html`<p class="kicker">${plain(INDEX.title)} <span class="counts">${plural(countTasks(TASKS), 'task')}, ${plural(TRIALS.length, 'trial')}${SIDES.length > 2 && `, ${SIDES.length} sides`}</span></p>
    <${Headline} />
    ${SIDES.length > 2 ? html`<${SidesTable} query=${query} />` : html`<${FigureStrip} />`}
    <${HeadRuns} /><${Warnings} /><${Chips} query=${query} /><div class="folds"><${Pictures} /><${Basis} /></div>`;
}
