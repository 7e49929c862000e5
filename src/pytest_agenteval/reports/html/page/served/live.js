// A report behind which `agenteval view` stands: it follows runs that go on, reads trials from the server, keeps notes.

const MOST_READ = 12;
const readTrials = new Map();
let liveProblem = '', liveTimer = 0;

const trialQuery = (place) => `${INDEX.live.query}&${new URLSearchParams({of: TRIALS[place].side, trial: TRIALS[place].name})}`;

function liveTrial(place) {
  const {side, name, attempts, ending} = TRIALS[place], key = JSON.stringify([side, name, attempts, ending]);
  const known = readTrials.get(key) ?? ask(`/api/trial?${trialQuery(place)}`).then(({data}) => data);
  readTrials.delete(key);
  readTrials.set(key, known);
  known.catch(() => readTrials.delete(key));
  if (readTrials.size > MOST_READ) readTrials.delete(readTrials.keys().next().value);
  return known;
}

// The server searches for some tenths of a second at a time; what was found is shown while it goes on.
async function liveSearch(text) {
  const found = new Set(), mine = () => Search.running && Search.text === text;
  let number = '', done = 0, total = 1;
  while (done < total && mine()) {
    const {data} = await ask(`/api/search?${INDEX.live.query}&${new URLSearchParams({q: text, search: number})}`);
    ({search: number, done, total} = data);
    for (const each of data.found) found.add(each.join('\n'));
    const places = TRIALS.flatMap(({side, name}, place) => (found.has(`${side}\n${name}`) ? [place] : []));
    if (done >= total) return places;
    Object.assign(Search, {places: new Set(places), done: Math.min(done, TRIALS.length - 1)});
    draw();
  }
  return null;
}

// ---- notes

// Only what is changed is sent: the rest may have been written elsewhere since the page was loaded.
class LiveNote extends Component {
  constructor() {
    super();
    this.state = {written: null, problem: '', saved: ''};
  }

  async save(posted) {
    const {place} = this.props;
    try {
      const {data} = await ask(`/api/notes?${trialQuery(place)}`, {posted}), isNote = data.looked_at || data.comment;
      TRIALS[place].note = isNote ? data : null;
      STAMP += 1;
      this.setState({problem: '', saved: isNote ? 'saved' : 'removed', ...('comment' in posted && {written: null})});
    } catch (error) { this.setState({problem: `It was not saved: ${plain(error.message)}.`}); }
    draw();
  }

  render({note}, {written, problem, saved}) {
    const looked = Boolean(note?.looked_at), before = note?.comment ?? '', comment = written ?? before, isNew = comment.trim() !== before;
    // Whoever writes a comment has looked at it.
    const submit = (event) => { event.preventDefault(); this.save({comment, ...(comment.trim() && {looked_at: true})}); };
    return html`<form class="live-note" onSubmit=${submit}>
      <label><input type="checkbox" id="looked-at" checked=${looked} onChange=${(event) => this.save({looked_at: event.target.checked})} /> looked at${looked && html` <span class="dim">${moment(note.looked_at)}</span>`}</label>
      <label class="comment"><span class="unseen">Comment</span><textarea id="comment" rows="1" placeholder="Comment   c" value=${comment} onInput=${(event) => this.setState({written: event.target.value, saved: ''})}></textarea></label>
      <button disabled=${!isNew}>Save</button> <span class="dim" role="status">${saved && !isNew && saved}</span>
      ${problem && html`<p class="warning" role="alert">${problem}</p>`}</form>`;
  }
}

const liveKeys = () => [['l', 'looked at, or not'], ['c', 'comment']];
const liveActions = () => ({
  l: () => document.getElementById('looked-at')?.click(),
  c: () => document.getElementById('comment')?.focus(),
});

// ---- runs that go on

function LiveRun({name, state, progress}) {
  const {ended, planned, errored, in_flight: inFlight} = progress;
  const words = [`${count(ended)} of ${plural(planned, 'trial')}`, errored && `${count(errored)} errored`, state === 'running' && inFlight > 0 && `${count(inFlight)} in flight`, ...(state === 'running' ? pace(progress) : [])].filter(Boolean);
  return html`<p class="live-run"><b class="state ${state.replace(' ', '-')}">${state}</b> <code>${plain(name)}</code>
    <progress max=${planned || 1} value=${ended} aria-label=${`${plain(name)}: trials that ended`}></progress> <span class="live-words">${words.join(', ')}</span></p>`;
}

function drawLive() {
  const runs = INDEX.live.runs.filter(({state}) => state !== 'ended');
  render(html`${runs.map((run) => html`<${LiveRun} key=${run.name} ...${run} />`)}${liveProblem && html`<p class="warning" role="alert">${liveProblem}</p>`}`, document.getElementById('live'));
}

const goesOn = () => INDEX.live.pending > 0 || INDEX.live.runs.some(({state}) => state !== 'ended');

async function look() {
  clearTimeout(liveTimer);
  const started = performance.now();
  try {
    const news = await ask(`/api/index?${INDEX.live.query}`, {version: INDEX.live.version});
    if (news) refresh(news.data);
    liveProblem = '';
  } catch (error) { liveProblem = `${plain(error.message)}.`; }
  drawLive();
  performance.mark('live-looked');
  plan(performance.now() - started);
}

// Every two seconds, and less often where the answer takes long. A run that has ended is not asked about.
function plan(took) {
  if (goesOn() && !document.hidden) liveTimer = setTimeout(look, INDEX.live.pending ? 100 : Math.max(2000, 3 * took));
}

function watch() {
  drawLive();
  plan(0);
  // The time that has passed counts on between two answers.
  setInterval(() => { if (!document.hidden && INDEX.live.runs.some(({state}) => state === 'running')) drawLive(); }, 1000);
  document.addEventListener('visibilitychange', () => { if (!document.hidden && goesOn()) look(); });
}
