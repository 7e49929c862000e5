// The list: suites and buckets as dots with intervals, why trials missed, then a row for each task and a column
// for each side.

const NARROW = matchMedia('(max-width: 700px)');
const STACKED = matchMedia('(max-width: 1050px)');
const MARGIN_ROWS = 10;
const MOST_NARROW = 6;
const AS_BEFORE = 4;

// ---- suites and buckets

// What became worse, then what became better, then what stayed: within each the furthest, else the lowest, first.
function bucketRank(figures, changes) {
  const known = changes.filter(Boolean), verdicts = known.map(({verdict}) => verdict);
  const furthest = known.reduce((most, {change}) => (typeof change === 'number' && Math.abs(change) > Math.abs(most) ? change : most), 0);
  const moved = Math.abs(furthest) > 1e-9 ? Math.sign(furthest) : 0;
  const group = verdicts.includes('worse') ? 0 : verdicts.includes('better') ? 1 : {'-1': 2, 1: 3, 0: AS_BEFORE}[moved];
  return [group, moved ? -Math.abs(furthest) : least(figures.map((each) => each?.score ?? null).filter((score) => score !== null)) ?? 9];
}

const bucketsBySuite = kept(() => SUITES.map(({sides, buckets}, suite) => {
  const ranked = buckets.map((bucket) => {
    const changes = sideNumbers().map((side) => (buckets.length > 1 ? bucketChange(suite, bucket.name, side) : suiteChange(suite, side)));
    return {...bucket, changes, rank: bucketRank(bucket.sides, changes)};
  });
  ranked.sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || (a.name < b.name ? -1 : 1));
  const whole = {name: SUITES[suite].label, sides, changes: sideNumbers().map((side) => suiteChange(suite, side))};
  return {suite, whole, buckets: buckets.length > 1 ? ranked : [], moved: ranked.some(({rank}) => rank[0] < AS_BEFORE)};
}));
// Suites stay in their order, except that those in which something moved come first.
const suitesInOrder = () => (OLD === null ? bucketsBySuite() : [...bucketsBySuite()].sort((a, b) => b.moved - a.moved));

function figureFacts(figures, change) {
  const {low, high, passed, tasks, trials, errored, not_run} = figures, over = change && interval(change.low, change.high);
  return [`${plural(tasks, 'task')}, ${plural(trials, 'trial')}${errored ? ` and ${errored} errored` : ''}${not_run > 0 ? `, ${not_run} not run` : ''}`,
    passed !== null && `pass rate ${percent(passed)}`, interval(low, high) && `score within ${interval(low, high)}`, comparedPart(figures, change),
    change && (change.says || change.verdict), over && `change within ${over}`, change && typeof change.p === 'number' && probability(change.p)].filter(Boolean).join(' · ');
}

// One line for a suite or bucket of one side, or of two: what the old side alone has is shown as its own.
function FigureRow({each, name, kind, href, current}) {
  const side = newSide(), isOld = !each.sides[side], figures = isOld ? each.sides[OLD] : each.sides[side], change = isOld ? null : each.changes[side];
  const part = comparedPart(figures, change);
  return html`<li><a class="figures ${kind}" href=${href} aria-current=${current ? 'true' : undefined} title=${figureFacts(figures, change)}>
    <span class="name">${breakable(name)}${part && html`<span class="part dim"> ${part}</span>`}</span>
    <${ScorePlot} figures=${figures} change=${change} hollow=${isOld} />
    <span class="number">${figure(figures.score)}${figures.mark}</span>
    ${OLD === null ? html`<span class="number dim">${figures.passed === null ? '–' : percent(figures.passed)}<span class="hidden"> pass rate</span></span>` : isOld ? html`<span class="number dim">old</span>` : html`<${Verdict} change=${change} />`}
  </a></li>`;
}

// A suite or bucket with a line for each side.
function FigureBlock({each, name, kind, href, current, sides}) {
  return html`<li><a class="block ${kind}" href=${href} aria-current=${current ? 'true' : undefined}><span class="name">${breakable(name)}</span>
    ${sides.map((side) => {
      const figures = each.sides[side], change = each.changes[side];
      return html`<span class="figures" key=${side} title=${figures ? figureFacts(figures, change) : 'no trials'}>
        <span class="line label ${side === OLD ? 'dim' : ''}">${sideLabel(side)}</span>
        ${figures ? html`<${ScorePlot} figures=${figures} hollow=${side === OLD} /><span class="number">${figure(figures.score)}${figures.mark}</span>
          ${side === OLD ? html`<span class="number dim">old</span>` : html`<${Verdict} change=${change} />`}` : html`<span class="dim">no trials</span>`}</span>`;
    })}</a></li>`;
}

// Buckets that are as before are one line; of many suites, and where buckets stand above the tasks, the first few of
// the others are shown.
class Suite extends Component {
  render({suite, whole, buckets, query, printing}, {all}) {
    const {label} = SUITES[suite], several = SIDES.length > 2, Figures = several ? FigureBlock : FigureRow, sides = shownSides(query);
    const asked = (name) => (query.facets[name] ?? []), inSuite = asked('suite').includes(label), here = inSuite && !asked('bucket').length;
    const link = (names) => listHash({...query, facets: {...query.facets, suite: [], bucket: [], ...names}});
    const first = OLD === null || several ? buckets.length : buckets.filter(({rank}) => rank[0] < AS_BEFORE).length;
    const few = several || STACKED.matches || (SUITES.length > 2 && OLD === null);
    const most = all || printing ? buckets.length : few ? Math.min(first, several ? MOST_NARROW / 2 + 1 : MOST_NARROW) : first;
    const inBucket = ({name}) => inSuite && asked('bucket').includes(name);
    return html`<div class="suite">
    <ul>
      <${Figures} kind="whole" each=${whole} name=${label} current=${here} sides=${sides} href=${link(here ? {} : {suite: [label]})} />
      ${buckets.filter((bucket, place) => place < most || inBucket(bucket)).map((bucket) => html`<${Figures} key=${bucket.name} kind="bucket" each=${bucket} name=${bucket.name || 'no bucket'}
        current=${inBucket(bucket)} sides=${sides} href=${link(inBucket(bucket) ? {} : {suite: [label], bucket: [bucket.name]})} />`)}
    </ul>
    ${buckets.length > most && html`<button class="more" onClick=${() => this.setState({all: true})}>${most < first || OLD === null || several ? plural(buckets.length - most, 'more bucket') : `${plural(buckets.length - most, 'bucket')} as before`}</button>`}
  </div>`;
  }
}

function Buckets({query, printing}) {
  const key = OLD === null ? 'score, pass rate' : SIDES.length > 2 ? html`<span class="key old"></span> ${sideLabel(OLD)}, change from it`
    : html`<span class="key old"></span> ${sideLabel(OLD)} <span class="key"></span> ${sideLabel(newSide())}, change`;
  return html`<section class="buckets" aria-labelledby="buckets-title">
    <div class="title"><h2 id="buckets-title">${SUITES.length > 1 ? 'Suites and buckets' : 'Buckets'}</h2><span class="dim">${key}</span></div>
    ${suitesInOrder().map((each) => html`<${Suite} key=${SUITES[each.suite].label} ...${each} query=${query} printing=${printing} />`)}
  </section>`;
}

// ---- why trials missed

const MOST_CAUSES = 4;
const MOST_CAUSE_SIDES = 6;

function CauseRow({cause, query, several}) {
  const asked = query.facets.cause ?? [], active = asked.includes(cause.key), worst = TRIALS[cause.worst];
  return html`<tr class=${active ? 'active' : ''}>
    <th scope="row"><a class="cause" href=${listHash(facetQuery(query, 'cause', toggled(asked, cause.key)))} aria-current=${active ? 'true' : undefined}>
      ${cause.kind === 'errored' && html`<b class="kind">errored</b> `}${breakable(oneLine(cause.words, 200))}</a>
      ${active && cause.traceback && html`<details class="fold"><summary>traceback</summary><div class="inside"><${Text} value=${cause.traceback} /></div></details>`}</th>
    ${several && shownSides(query).map((side) => html`<td class="number side-count ${cause.sides[side] ? '' : 'dim'}" key=${side} data-head=${sideLabel(side)}>${count(cause.sides[side])}</td>`)}
    <td class="number" data-head="trials">${count(cause.trials)}</td><td class="number" data-head="tasks">${count(cause.tasks)}</td>
    <td class="worst"><a class="line" href=${trialHash(cause.worst)} title=${plain(worst.name)}>${figure(worst.score)} <span class="dim">${plain(worst.row.task)}${SIDES.length > 1 && `, ${sideLabel(worst.side)}`}</span></a></td>
  </tr>`;
}

class Causes extends Component {
  render({query, printing}, {all}) {
    if (!CAUSES.length) return null;
    const asked = query.facets.cause ?? [], several = SIDES.length > 1 && shownSides(query).length <= MOST_CAUSE_SIDES;
    const most = all || printing ? CAUSES.length : CAUSES.length === MOST_CAUSES + 1 ? CAUSES.length : MOST_CAUSES;
    const missed = TRIALS.filter(({ending}) => ending !== 'passed').length;
    return html`<section class="causes" aria-labelledby="causes-title">
      <h2 id="causes-title">Why trials missed <span class="dim">${count(missed)} of ${plural(TRIALS.length, 'trial')}</span></h2>
      <table><thead><tr><th scope="col"><span class="hidden">cause</span></th>${several && shownSides(query).map((side) => html`<th scope="col" class="number" key=${side}><span class="line">${sideLabel(side)}</span></th>`)}
        <th scope="col" class="number">trials</th><th scope="col" class="number">tasks</th><th scope="col" class="worst">worst</th></tr></thead>
        <tbody>${CAUSES.filter((cause, place) => place < most || asked.includes(cause.key)).map((cause) => html`<${CauseRow} key=${cause.key} cause=${cause} query=${query} several=${several} />`)}</tbody></table>
      ${CAUSES.length > most && html`<button class="more" onClick=${() => this.setState({all: true})}>${plural(CAUSES.length - most, 'more cause')}</button>`}
    </section>`;
  }
}

// ---- runs, and the whole

// The head has said what makes the newer run's figures doubtful.
function Runs() {
  const older = isPair() && RUNS.length === 2 ? SIDES[OLD].run : null;
  return html`<section class="runs" aria-labelledby="runs-title"><h2 id="runs-title">${RUNS.length === 1 ? 'Run' : 'Runs'}</h2>
    ${RUNS.map((run, number) => html`<div class="run" key=${run.name}>
      <p><b>${plain(run.name)}</b> <span class="dim">${[SIDES.filter((side) => side.run === number && SIDES.length > 1).map((side) => plain(side.label)).join(', '), run.started_at && moment(run.started_at),
        run.ended_at ? `ended ${moment(run.ended_at)}` : run.started_at && (goingOn().includes(run.name) ? 'running' : 'never ended'), run.exit_status !== null && `exit ${run.exit_status}`, plain(run.place)].filter(Boolean).join(' · ')}</span></p>
      ${number === older && run.warnings.map((warning) => html`<p class="warning">${plain(warning)}</p>`)}
    </div>`)}
  </section>`;
}

function List({query, printing}) {
  const {tasks} = select(query), rows = query.group ? groupRows(tasks) : tasks;
  return html`<div class="list">
    <div class="columns">
      <${Buckets} query=${query} printing=${printing} />
      <section class="tasks" aria-label="Tasks">
        <${Causes} query=${query} printing=${printing} />
        <${Toolbar} query=${query} tasks=${tasks} />
        ${tasks.length ? html`<${Table} rows=${rows} query=${query} printing=${printing} />`
          : TASKS.length === 0 ? html`<p class="nothing">No trial has ended.</p>`
          : Search.running && query.text ? html`<p class="nothing">Nothing found yet.</p>`
          : html`<p class="nothing">No task matches. <a href=${listHash({...NO_QUERY, old: query.old, hide: query.hide})}>Show all ${count(countTasks(TASKS))}</a>
            ${query.q.trim() && searchable() > 0 && html` · <a href=${listHash({...query, q: '', text: query.q.trim()})}>Search ${plural(searchable(), 'transcript')} for “${plain(query.q.trim())}”</a>`}</p>`}
      </section>
    </div>
    <${Runs} />
  </div>`;
}
