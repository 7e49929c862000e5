// Small drawings: scores with their intervals, and one cell for each repetition.

const VERDICTS = {better: '▲', worse: '▼'};
const tone = (verdict) => ({better: 'good', worse: 'bad'}[verdict] ?? 'dim');

// A change is over the tasks that both sides have. Where the score is over others too, it is not the new end of it.
function comparedPart({old, change, score, tasks}) {
  const whole = !old || typeof change !== 'number' || Math.abs(old.score + change - score) < 1e-9;
  return whole ? '' : `compared over ${old.tasks} of ${plural(tasks, 'task')}`;
}

// A score from 0 to 1 as a dot, its interval as a bar; the old run's hollow above it. Both are over the same tasks.
function ScorePlot({figures}) {
  const {score, low, high, old, change} = figures, part = comparedPart(figures), at = (value) => 4 + 92 * Math.min(1, Math.max(0, value));
  const mark = (y, side, kind) => side && side.score !== null && html`
    ${typeof side.low === 'number' && html`<line class="bar ${kind}" x1=${at(side.low)} x2=${at(side.high)} y1=${y} y2=${y} />`}
    <circle class="dot ${kind}" cx=${at(side.score)} cy=${y} r="3.2" />`;
  const says = [score === null ? 'no score' : `score ${figure(score)}`, interval(low, high) && `between ${interval(low, high)}`,
    part, old && old.score !== null && `before ${figure(old.score)}${part && ` now ${figure(old.score + change)}`}`].filter(Boolean).join(', ');
  return html`<svg class="plot" viewBox="0 0 100 20" role="img" aria-label=${says} preserveAspectRatio="none">
    <line class="axis" x1="4" x2="96" y1="10" y2="10" />
    ${[0, 0.5, 1].map((tick) => html`<line class="tick" x1=${at(tick)} x2=${at(tick)} y1="7" y2="13" />`)}
    ${old && mark(5.5, old, 'old')}${mark(old ? 14.5 : 10, part ? {score: old.score + change} : {score, low, high}, 'new')}
  </svg>`;
}

// What a cell shows to those who see no colour: a tick, a sign, or the tenth that was reached.
function glyph({ending, score}) {
  if (ending === 'errored') return '!';
  if (ending === 'passed') return '✓';
  return score === null ? '?' : String(Math.min(9, Math.floor(score * 10 + 1e-9)));
}

function cellLabel(trial) {
  const run = RUNS.length > 1 ? (COMPARED ? (trial.run === NEWEST ? '' : 'before, ') : `run ${trial.run + 1}, `) : '';
  const score = trial.score === null ? '' : ` ${figure(trial.score)}`;
  return `${run}repetition ${trial.repetition}: ${trial.ending}${score}`;
}

function Cell({place, current}) {
  const trial = TRIALS[place], fill = trial.ending === 'errored' || trial.score === null ? 0 : trial.score;
  const past = COMPARED && trial.run !== NEWEST;
  return html`<a class="cell ${trial.ending} ${past ? 'old' : ''}" href=${trialHash(place)} title=${cellLabel(trial)}
    aria-label=${cellLabel(trial)} aria-current=${current === place ? 'page' : undefined}
    data-sign=${glyph(trial)} style=${`--fill:${Math.round(fill * 100)}%`}></a>`;
}

function Strip({places, current, most}) {
  const shown = places.slice(0, most), runOf = (place) => TRIALS[place].run;
  return html`<span class="strip">${[...new Set(shown.map(runOf))].map((run) => html`<span class="cells">
    ${shown.filter((place) => runOf(place) === run).map((place) => html`<${Cell} key=${place} place=${place} current=${current} />`)}</span>`)}
    ${places.length > most && html`<span class="dim further">+${places.length - most}</span>`}</span>`;
}

function Change({value, verdict}) {
  if (value === null || value === undefined) return null;
  const kind = verdict ? tone(verdict) : value > 1e-9 ? 'good' : value < -1e-9 ? 'bad' : 'dim';
  return html`<span class="change ${kind}">${signed(value)}</span>`;
}
