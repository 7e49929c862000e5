// The list of runs: searched, followed while runs go on, and where the sides of a report are picked.

let {runs: RUNS, results: RESULTS, pending: PENDING} = JSON.parse(document.getElementById('runs').textContent);
let BASELINES = null;
let state = readHash(), problem = '', version = '', known = performance.now();

// What is shown follows the address, so that one comes back to it: #q=…&pick=…&pick=…
function readHash() {
  const pairs = new URLSearchParams(location.hash.slice(1));
  return {q: pairs.get('q') ?? '', picks: pairs.getAll('pick')};
}

function writeHash() {
  const pairs = new URLSearchParams([...(state.q ? [['q', state.q]] : []), ...state.picks.map((pick) => ['pick', pick])]);
  history.replaceState(null, '', String(pairs) ? `#${pairs}` : location.pathname);
}

function set(change) {
  state = {...state, ...change};
  writeHash();
  draw();
}

// ---- parts of a run

// Where there are several models and several prompts, all of one of them can be picked too.
const promptOf = ({variant}) => variant || 'base';
function partsOf(run) {
  const whos = run.suites ?? [], models = [...new Set(whos.map(({model}) => model))], variants = [...new Set(whos.map(promptOf))];
  if (models.length < 2 || variants.length < 2) return [];
  return [
    ...models.map((model) => [`${model}, all prompts`, side('run', run.name, model, '')]),
    ...variants.map((variant) => [`${variant === 'base' ? 'own prompts' : variant}, all models`, side('run', run.name, '', variant)]),
  ];
}

// The side of a suite's row: its model, its prompt or both, as several of them are in the run; once for all of its suites.
function sideOfRow(run, at) {
  const whos = run.suites, {model} = whos[at], variant = promptOf(whos[at]);
  const several = [whos.some((who) => who.model !== model), whos.some((who) => promptOf(who) !== variant)];
  const isFirst = whos.findIndex((who) => who.model === model && promptOf(who) === variant) === at;
  return isFirst && several.includes(true) ? side('run', run.name, several[0] ? model : '', several[1] ? variant : '') : '';
}

// ---- rows

const STATES = {running: 'running', 'not ended': 'not ended', ended: ''};
const verdictTone = (verdict) => (verdict.startsWith('worse') ? 'bad' : verdict.startsWith('better') ? 'good' : '');

function haystack(run) {
  const suites = (run.suites ?? []).flatMap(({suite, who, verdict}) => [suite, who, verdict]);
  return [run.name, run.started, run.state, ...run.models, ...run.variants, ...run.suite_names, ...suites].join('\n').toLowerCase();
}

const matching = () => {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  return RUNS.filter((run) => words.every((word) => haystack(run).includes(word)));
};

function Progress({run}) {
  const {ended, planned, errored, in_flight: inFlight} = run.progress;
  const words = [`${count(ended)} of ${plural(planned, 'trial')}`, errored && `${count(errored)} errored`, inFlight > 0 && `${count(inFlight)} in flight`, ...pace(run.progress)].filter(Boolean);
  return html`<span class="progress"><progress max=${planned || 1} value=${ended} aria-label=${`${run.name}: trials that ended`}></progress> <span>${words.join(', ')}</span></span>`;
}

const onPick = (picks) => set({picks});
const RunPick = (props) => html`<${Pick} ...${props} picks=${state.picks} onPick=${onPick} />`;

function RunRows({run}) {
  const suites = run.suites ?? [], parts = partsOf(run), rows = suites.length || 1, whole = side('run', run.name);
  const facts = [run.state === 'ended' && run.wall && run.wall !== '-' && run.wall, run.exit_status !== null && `exit ${run.exit_status}`].filter(Boolean).map((fact) => ` · ${fact}`).join('');
  return html`<tbody class="run ${run.state.replace(' ', '-')} ${state.picks.includes(whole) || parts.some(([, value]) => state.picks.includes(value)) ? 'picked' : ''}">
    ${Array.from({length: rows}, (_, at) => html`<tr class=${suites[at] && state.picks.includes(sideOfRow(run, at)) ? 'picked' : ''}>
      ${at === 0 && html`<td class="check" rowspan=${rows}><${RunPick} value=${whole} words=${`Compare ${run.name}`} hidden /></td>
        <th scope="rowgroup" rowspan=${rows}>
          <a class="name" href=${reportOf([whole])} data-run=${run.name}>${breakable(run.name)}</a>
          <span class="when dim"><time datetime=${run.started_at}>${plain(run.started)}</time>${STATES[run.state] && html` <b class="state">${STATES[run.state]}</b>`}${facts}</span>
          ${run.progress && html`<${Progress} run=${run} />`}
          ${run.headline && html`<span class="headline">${plain(run.headline)}</span>`}
          ${parts.length > 0 && html`<details class="parts" open=${parts.some(([, value]) => state.picks.includes(value))}><summary>all prompts, all models</summary>
            <span role="group" aria-label=${`Parts of ${run.name}`}>${parts.map(([words, value]) => html`<${RunPick} key=${value} value=${value} words=${words} />`)}</span></details>`}
          ${(run.problems ?? []).map((words) => html`<span class="warning">${plain(words)}</span>`)}
        </th>`}
      ${run.suites ? html`<${SuiteCells} at=${at} run=${run} />` : html`<td class="dim" colspan=${HEADS.length}>${plain(run.suite_names.join(', '))} …</td>`}
    </tr>`)}
  </tbody>`;
}

function SuiteCells({at, run}) {
  const suite = run.suites[at];
  if (!suite) return html`<td class="dim" colspan=${HEADS.length}>${run.problem ? plain(run.problem) : 'no trials'}</td>`;
  const {averaged, planned} = suite, value = sideOfRow(run, at);
  return html`<td class="suite">${(at === 0 || run.suites[at - 1].suite !== suite.suite) && breakable(suite.suite)}</td>
    <td class="who">${value ? html`<${RunPick} value=${value} words=${suite.who} />` : breakable(suite.who)}</td>
    <td class="number score" data-head="score">${plain(suite.score)}</td><td class="number dim" data-head="95 %">${plain(suite.interval)}</td>
    <td class="number" data-head="trials">${count(averaged)} of ${count(planned)}</td><td class="number" data-head="cost">${plain(suite.cost)}</td>
    <td class="number" data-head=${suite.turns ? 'turn' : undefined}>${plain(suite.turns)}</td><td class="verdict ${verdictTone(suite.verdict)}">${plain(suite.verdict)}</td>`;
}

// ---- the page

function Baselines() {
  if (!BASELINES?.length) return null;
  return html`<section class="baselines" aria-labelledby="baselines-title"><h2 id="baselines-title">Baselines</h2>
    <ul>${BASELINES.map((name) => html`<li key=${name}><${RunPick} value=${side('baseline', name)} words=${name} /></li>`)}</ul></section>`;
}

// Baselines, then runs as they started: the first side is the old one.
function inOrder(picks) {
  const at = (pick) => (pick.startsWith('baseline/') ? -1 : RUNS.length - RUNS.findIndex((run) => run.name === decodeURIComponent(pick.split('/')[1])));
  return [...picks].sort((one, other) => at(one) - at(other));
}

const HEADS = [['suite', 'Suite'], ['who', 'Model'], ['number', 'Score'], ['number', '95 %'], ['number', 'Trials'], ['number', 'Cost'], ['number', 'Turn p50/p95'], ['verdict', 'Verdict']];

function Page() {
  const shown = matching(), running = RUNS.filter((run) => run.state === 'running').length;
  const words = [shown.length === RUNS.length ? plural(RUNS.length, 'run') : `${count(shown.length)} of ${plural(RUNS.length, 'run')}`,
    running && `${count(running)} running`, PENDING && `${count(PENDING)} being read`].filter(Boolean).join(', ');
  return html`<h1 class="unseen">Runs</h1>
    <div class="toolbar" role="search">
      <input id="filter" type="search" placeholder="Search runs, suites, models, verdicts   /" aria-label="Search runs, suites, models and verdicts" value=${state.q} onInput=${(event) => set({q: event.target.value})} />
      <p class="status" role="status">${words}</p>
    </div>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    ${shown.length ? html`<table class=${`runs${shown.some(({suites}) => suites?.some(({verdict}) => verdict)) ? '' : ' without-verdict'}${shown.some(({suites}) => suites?.some(({turns}) => turns)) ? '' : ' without-turns'}`}><caption class="unseen">Runs in ${plain(RESULTS)}, newest first</caption>
      <thead><tr><td></td><th scope="col">Run</th>${HEADS.map(([kind, words]) => html`<th scope="col" class=${kind}>${words}</th>`)}</tr></thead>
      ${shown.map((run) => html`<${RunRows} key=${run.name} run=${run} />`)}</table>`
      : html`<p class="nothing">${RUNS.length ? html`No run matches. <button onClick=${() => set({q: ''})}>Show all ${count(RUNS.length)}</button>` : `There are no runs in ${plain(RESULTS)} yet.`}</p>`}
    <${Baselines} /><${Compare} picks=${inOrder(state.picks)} onPick=${onPick} />`;
}

const draw = () => render(html`<${Page} />`, root);

// ---- what changes: asked for while the page is seen, often while a run goes on

let timer = 0;
async function refresh() {
  clearTimeout(timer);
  const started = performance.now();
  try {
    const news = await ask('/api/runs', {version});
    if (news) ({data: {runs: RUNS, results: RESULTS, pending: PENDING}, version} = news);
    problem = '';
  } catch (error) {
    problem = `${error.message}.`;
  }
  draw();
  performance.mark('runs-refreshed');
  // A machine that takes long to answer is asked less often.
  const pause = PENDING ? 50 : RUNS.some((run) => run.state === 'running') ? 2000 : 4000;
  if (!document.hidden) timer = setTimeout(refresh, Math.max(pause, PENDING ? 0 : 3 * (performance.now() - started)));
}

async function findBaselines() {
  try {
    BASELINES = (await ask('/api/baselines')).data.baselines;
  } catch { /* the list of runs says it where the server has gone */ }
  draw();
}

// ---- keys

const rowLinks = () => [...root.querySelectorAll('a[data-run]')];
function move(by) {
  const links = rowLinks(), at = links.indexOf(document.activeElement?.closest('tbody')?.querySelector('a[data-run]'));
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}
const ACTIONS = {
  j: () => move(1), k: () => move(-1), '/': () => document.getElementById('filter').select(),
  x: () => document.activeElement?.closest('tbody')?.querySelector('.pick input')?.click(),
  c: () => state.picks.length && root.querySelector('.compare .go').click(),
};
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest('input:not([type=checkbox])');
  if (typing) {
    if (event.key !== 'Escape') return;
    // A browser would empty the box, and say so to nobody.
    event.preventDefault();
    typing.blur();
    return;
  }
  const action = ACTIONS[event.key];
  if (action) { event.preventDefault(); action(); }
});
addEventListener('hashchange', () => { state = readHash(); draw(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });

root.replaceChildren();
draw();
document.body.dataset.view = 'runs';
performance.mark('list-usable');
refresh();
findBaselines();
