// Small drawings: scores with their intervals, and one cell for each repetition.

const VERDICTS = {better: '▲', worse: '▼'};
const tone = (verdict) => ({better: 'good', worse: 'bad'}[verdict] ?? 'dim');

// A change is over the tasks that both sides have. Where the score is over others too, it is not the new end of it.
function comparedPart({score, tasks}, change) {
  const whole = !change || typeof change.change !== 'number' || score === null || Math.abs(change.new - score) < 1e-9;
  return whole ? '' : `compared over ${change.tasks} of ${plural(tasks, 'task')}`;
}

// A score from 0 to 1 as a dot, its interval as a bar. With a change that of the old side, hollow, stands above it:
// both are over the same tasks then.
function ScorePlot({figures, change, hollow}) {
  const {score, low, high} = figures, part = comparedPart(figures, change), at = (value) => 4 + 92 * Math.min(1, Math.max(0, value));
  const mark = (y, side, kind) => side.score !== null && html`
    ${typeof side.low === 'number' && html`<line class="bar ${kind}" x1=${at(side.low)} x2=${at(side.high)} y1=${y} y2=${y} />`}
    <circle class="dot ${kind}" cx=${at(side.score)} cy=${y} r="3.2" />`;
  const says = [score === null ? 'no score' : `score ${figure(score)}`, interval(low, high) && `between ${interval(low, high)}`,
    part, change && change.old !== null && `before ${figure(change.old)}${part && ` now ${figure(change.new)}`}`].filter(Boolean).join(', ');
  return html`<svg class="plot" viewBox="0 0 100 20" role="img" aria-label=${says} preserveAspectRatio="none">
    <line class="axis" x1="4" x2="96" y1="10" y2="10" />
    ${[0, 0.5, 1].map((tick) => html`<line class="tick" x1=${at(tick)} x2=${at(tick)} y1="7" y2="13" />`)}
    ${change && mark(5.5, {score: change.old}, 'old')}${mark(change ? 14.5 : 10, part ? {score: change.new} : {score, low, high}, hollow ? 'old' : 'new')}
  </svg>`;
}

// A change with the sign of its verdict.
function Verdict({change}) {
  if (!change) return html`<span class="number"></span>`;
  return html`<span class="number ${tone(change.verdict)}">${signed(change.change)}<span class="verdict" aria-hidden="true">${VERDICTS[change.verdict] ?? ''}</span><span class="hidden"> ${change.says || change.verdict}</span></span>`;
}

// What a cell shows to those who see no colour: a tick, a sign, or the tenth that was reached.
function glyph({ending, score}) {
  if (ending === 'errored') return '!';
  if (ending === 'passed') return '✓';
  return score === null ? '?' : String(Math.min(9, Math.floor(score * 10 + 1e-9)));
}

const sideLabel = (side) => (SIDES.length > 1 ? plain(SIDES[side].label) : '');

function cellLabel({side, repetition, ending, score, note}) {
  const words = `repetition ${repetition}: ${ending}${score === null ? '' : ` ${figure(score)}`}`;
  return [side === OLD ? `${sideLabel(side)} (old)` : sideLabel(side), words, note && (note.comment ? `noted: ${oneLine(note.comment, 200)}` : 'looked at')].filter(Boolean).join(', ');
}

// A click opens the trial; with Shift, or where two are being chosen, it is chosen to stand beside another.
function Cell({place, current, fits}) {
  const trial = TRIALS[place], fill = trial.ending === 'errored' || trial.score === null ? 0 : trial.score, chosen = view.chosen.includes(place);
  const kinds = ['cell', trial.ending, isPair() && trial.side === OLD && 'old', chosen && 'chosen', fits && !fits(place) && 'unasked',
    trial.note && (trial.note.comment ? 'noted' : 'seen')].filter(Boolean).join(' ');
  const click = (event) => { if (event.shiftKey || view.choosing) { event.preventDefault(); choose(place); } };
  return html`<a class=${kinds} href=${trialHash(place)} title=${cellLabel(trial)} onClick=${click}
    aria-label=${cellLabel(trial) + (chosen ? ', chosen' : '')} aria-current=${current === place ? 'page' : undefined}
    data-place=${place} data-sign=${glyph(trial)} style=${`--fill:${Math.round(fill * 100)}%`}></a>`;
}

// The cells of one side after the other.
function Strip({places, current, most, fits}) {
  const shown = places.slice(0, most), sideOf = (place) => TRIALS[place].side;
  return html`<span class="strip">${[...new Set(shown.map(sideOf))].map((side) => html`<span class="cells">
    ${shown.filter((place) => sideOf(place) === side).map((place) => html`<${Cell} key=${TRIALS[place].name} place=${place} current=${current} fits=${fits} />`)}</span>`)}
    ${places.length > most && html`<span class="dim further">+${places.length - most}</span>`}</span>`;
}

function Change({value, verdict}) {
  if (value === null || value === undefined) return null;
  const kind = verdict ? tone(verdict) : value > 1e-9 ? 'good' : value < -1e-9 ? 'bad' : 'dim';
  return html`<span class="change ${kind}">${signed(value)}</span>`;
}

// What somebody said of a trial; it can be written where a server keeps it.
function TrialNote({place}) {
  const {note} = TRIALS[place];
  if (INDEX.live) return html`<${LiveNote} key=${trialKey(place)} place=${place} note=${note} />`;
  if (!note) return null;
  return html`<p class="note-of-trial"><b>${note.comment ? 'Note' : 'Looked at'}</b> <span class="dim">${typeof note.looked_at === 'string' && moment(note.looked_at)}</span>
    ${note.comment && html`<${Text} value=${note.comment} kind="prose" />`}</p>`;
}
