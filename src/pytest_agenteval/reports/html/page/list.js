// The list: suites and buckets as dots with intervals, then a row for each task, the worst first.

const NARROW = matchMedia('(max-width: 700px)');
const rowHeight = () => (NARROW.matches ? 84 : 48);
const MARGIN_ROWS = 10;
const MOST_CELLS = 12;

const toggled = (list, name) => (list.includes(name) ? list.filter((other) => other !== name) : [...list, name]);
const MOST_NARROW = 6;
const STACKED = matchMedia('(max-width: 1050px)');
const AS_BEFORE = 4;

// What became worse, then what became better, then what stayed: within each the furthest, else the lowest, first.
function bucketRank({verdict, change, score}) {
  const moved = typeof change === 'number' && Math.abs(change) > 1e-9 ? Math.sign(change) : 0;
  const group = verdict === 'worse' ? 0 : verdict === 'better' ? 1 : {'-1': 2, 1: 3, 0: AS_BEFORE}[moved];
  return [group, moved ? -Math.abs(change) : score ?? 9];
}
const moved = (figures) => bucketRank(figures)[0] < AS_BEFORE;
function byRank(a, b) {
  const [x, y] = [bucketRank(a), bucketRank(b)];
  return x[0] - y[0] || x[1] - y[1] || (a.name < b.name ? -1 : 1);
}
const bucketsOf = (suite) => (suite.buckets.length > 1 ? [...suite.buckets].sort(byRank) : []);
// Suites stay in their order, except that those in which something moved come first.
const suitesInOrder = () => (COMPARED ? [...SUITES].sort((a, b) => b.buckets.some(moved) - a.buckets.some(moved)) : SUITES);

function FigureRow({figures, name, kind, href, current}) {
  const {score, mark, low, high, verdict, says, change, change_low, change_high, p, passed, tasks, trials, planned, errored} = figures, left = planned - trials - errored;
  const share = passed === null ? '' : percent(passed), over = interval(change_low, change_high);
  const part = comparedPart(figures);
  const facts = [`${plural(tasks, 'task')}, ${plural(trials, 'trial')}${errored ? ` and ${errored} errored` : ''}${left > 0 ? `, ${left} not run` : ''}`, share && `pass rate ${share}`,
    interval(low, high) && `score within ${interval(low, high)}`, part, says || verdict, over && `change within ${over}`, typeof p === 'number' && probability(p)].filter(Boolean);
  return html`<li><a class="figures ${kind}" href=${href} aria-current=${current ? 'true' : undefined} title=${facts.join(' · ')}>
    <span class="name">${breakable(name)}${part && html`<span class="part dim"> ${part}</span>`}</span>
    <${ScorePlot} figures=${figures} />
    <span class="number">${figure(score)}${mark}</span>
    ${COMPARED
      ? html`<span class="number ${tone(verdict)}">${signed(change)}<span class="verdict" aria-hidden="true">${VERDICTS[verdict] ?? ''}</span><span class="hidden"> ${says || verdict}</span></span>`
      : html`<span class="number dim">${share || '–'}<span class="hidden"> pass rate</span></span>`}
  </a></li>`;
}

// Buckets that are as before are one line; of many suites, and where buckets stand above the tasks, the first few of
// the others are shown.
const MANY = SUITES.length > 2 && !COMPARED;
class Suite extends Component {
  render({suite, query, printing}, {all}) {
    const inSuite = query.suite === suite.label, here = inSuite && query.bucket === null;
    const buckets = bucketsOf(suite), first = COMPARED ? buckets.filter(moved).length : buckets.length;
    const most = all || printing ? buckets.length : STACKED.matches || MANY ? Math.min(first, MOST_NARROW) : first;
    return html`<div class="suite">
    <ul>
      <${FigureRow} kind="whole" figures=${suite.all} name=${suite.label} current=${here}
        href=${listHash({...query, bucket: null, suite: here ? null : suite.label})} />
      ${buckets.filter((bucket, place) => place < most || inSuite && query.bucket === bucket.name).map((bucket) => {
        const current = inSuite && query.bucket === bucket.name;
        return html`<${FigureRow} key=${bucket.name} kind="bucket" figures=${bucket} name=${bucket.name || 'no bucket'} current=${current}
          href=${listHash(current ? {...query, bucket: null, suite: null} : {...query, bucket: bucket.name, suite: suite.label})} />`;
      })}
    </ul>
    ${buckets.length > most && html`<button class="more" onClick=${() => this.setState({all: true})}>${most < first ? plural(buckets.length - most, 'more bucket') : `${plural(buckets.length - most, 'bucket')} as before`}</button>`}
  </div>`;
  }
}

function Buckets({query, printing}) {
  return html`<section class="buckets" aria-labelledby="buckets-title">
    <div class="title"><h2 id="buckets-title">${SUITES.length > 1 ? 'Suites and buckets' : 'Buckets'}</h2>
      <span class="dim">${COMPARED ? html`<span class="key old"></span> before <span class="key"></span> now, change` : 'score, pass rate'}</span></div>
    ${suitesInOrder().map((suite) => html`<${Suite} key=${suite.label} suite=${suite} query=${query} printing=${printing} />`)}
  </section>`;
}

// ---- what narrows the rows

function Pill({words, href}) {
  return html`<a class="pill" href=${href} aria-label=${`remove filter ${words}`}>${words}<span aria-hidden="true"> ×</span></a>`;
}

function Toolbar({query, rows}) {
  const pills = [
    ...query.show.map((name) => [plain(name), {...query, show: toggled(query.show, name)}]),
    ...(query.bucket === null && query.suite === null ? []
      : [[[query.suite, query.bucket].filter(Boolean).map(plain).join(' · '), {...query, bucket: null, suite: null}]]),
  ];
  return html`<div class="toolbar" role="search">
    <input id="filter" type="search" placeholder="Filter tasks, reasons, buckets   /" aria-label="Filter tasks, reasons and buckets"
      value=${query.q} onInput=${(event) => type(event.target.value)} onChange=${settle} />
    <label class="choice"><span class="hidden">Order</span>
      <select value=${query.sort || DEFAULT_ORDER} onChange=${(event) => goto({...query, sort: event.target.value})}>
        ${Object.entries(ORDERS).filter(([key]) => key !== 'change' || COMPARED).map(([key, order]) =>
          html`<option value=${key} selected=${key === (query.sort || DEFAULT_ORDER).replace('-', '')}>${order.words}</option>`)}
      </select></label>
    <label class="choice"><input type="checkbox" checked=${query.group} onChange=${() => goto({...query, group: !query.group})} /> by bucket</label>
    <p class="status" role="status">${rows === TASKS.length ? plural(rows, 'task') : `${count(rows)} of ${plural(TASKS.length, 'task')}`}</p>
    <${KeysButton} />
    ${pills.length > 0 && html`<p class="pills">${pills.map(([words, next]) => html`<${Pill} key=${words} words=${words} href=${listHash(next)} />`)}</p>`}
  </div>`;
}

// ---- the table: as many rows in the document as fit on the screen, all of them on paper

function Head({query, column}) {
  const now = query.sort || DEFAULT_ORDER;
  const cell = (key, words, kind) => {
    const active = now.replace('-', '') === key, down = active && (now[0] === '-') !== (ORDERS[key].way < 0);
    return html`<span role="columnheader" class=${kind} aria-sort=${active ? (down ? 'descending' : 'ascending') : undefined}>
      <button onClick=${() => goto({...query, sort: active && now[0] !== '-' ? `-${key}` : key})}>${words}${active && html`<span aria-hidden="true">${down ? ' ↓' : ' ↑'}</span>`}</button></span>`;
  };
  return html`<div role="rowgroup" class="thead"><div role="row" class="row" aria-rowindex="1">
    ${cell('task', 'Task', 'what')}${cell('bucket', 'Bucket', 'where')}
    <span role="columnheader" class="trials">${COMPARED ? 'Trials before, now' : 'Trials'}</span>
    ${cell('score', 'Score', 'number')}${COMPARED && cell('change', 'Change', 'number')}
    ${column && cell(column, ORDERS[column].column, 'number')}
  </div></div>`;
}

function worstEnding(task) {
  const endings = task.trials.map((place) => TRIALS[place].ending);
  return ['errored', 'failed', 'missed', 'passed'].find((ending) => endings.includes(ending));
}

// As many cells as fit on each side; where that is not all of them, two fewer and how many more there are.
function mostCells({trials, old}) {
  const fitting = (NARROW.matches ? 10 : MOST_CELLS) / (old.length ? 2 : 1);
  return Math.max(trials.length, old.length) > fitting ? fitting - 2 : fitting;
}

function Row({task, number, column}) {
  const open = (event) => {
    if (event.target.closest('a') || String(getSelection())) return;
    go(trialHash(worstTrial(task)));
  };
  return html`<div role="row" class="row task ${worstEnding(task)}" aria-rowindex=${number} onClick=${open}>
    <span role="cell" class="what">
      <span class="line">${task.flag && html`<b class="flag ${task.flag === 'mended' ? 'good' : 'bad'}">${plain(task.flag)}</b>`}
        <a class="name" data-row=${task.place} href=${trialHash(worstTrial(task))}>${plain(task.task)}</a></span>
      <span class="line reason" title=${oneLine(task.reason, 1000)}>${oneLine(task.reason) || html`<span class="dim">all checks passed</span>`}</span>
    </span>
    <span role="cell" class="where">${breakable(task.bucket)}${SUITES.length > 1 && html`<span class="line dim">${plain(task.label)}</span>`}</span>
    <span role="cell" class="trials">
      ${task.old.length > 0 && html`<${Strip} places=${task.old} most=${mostCells(task)} /><span class="dim" aria-hidden="true">→</span>`}
      <${Strip} places=${task.trials} most=${mostCells(task)} /></span>
    <span role="cell" class="number">${figure(task.score)}</span>
    ${COMPARED && html`<span role="cell" class="number"><${Change} value=${task.change} /></span>`}
    ${column && html`<span role="cell" class="number dim">${ORDERS[column].text(ORDERS[column].value(task))}</span>`}
  </div>`;
}

const GroupRow = ({group, label, tasks, number}) => html`<div role="row" class="row group" aria-rowindex=${number}>
  <span role="cell"><b>${plain(group) || 'no bucket'}</b> <span class="dim">${SUITES.length > 1 ? `${plain(label)}, ` : ''}${plural(tasks, 'task')}</span></span></div>`;

class Table extends Component {
  constructor(props) {
    super(props);
    this.state = {first: 0, last: 40};
    this.look = this.look.bind(this);
  }

  componentDidMount() {
    addEventListener('scroll', this.look, {passive: true});
    addEventListener('resize', this.look);
    Table.shown = this;
    this.look();
  }

  componentDidUpdate() { this.look(); }

  componentWillUnmount() {
    removeEventListener('scroll', this.look);
    removeEventListener('resize', this.look);
    Table.shown = null;
  }

  look() {
    const above = -this.body.getBoundingClientRect().top, height = rowHeight();
    const first = Math.max(0, Math.min(Math.floor(above / height), this.props.rows.length) - MARGIN_ROWS);
    const last = Math.ceil((above + innerHeight) / height) + MARGIN_ROWS;
    if (first !== this.state.first || last !== this.state.last || height !== this.state.height) this.setState({first, last, height});
  }

  // The next task's row gets the focus, scrolled to if it is not on the screen.
  move(by) {
    const {rows} = this.props, places = rows.flatMap((row, index) => (row.group === undefined ? [index] : []));
    const here = document.activeElement?.dataset?.row, at = places.findIndex((index) => String(rows[index].place) === here);
    const next = places[at < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(places.length - 1, Math.max(0, at + by))];
    if (next !== undefined) this.focus(rows[next].place);
  }

  focus(place) {
    const index = this.props.rows.findIndex((row) => row.place === place), height = rowHeight();
    if (index < 0) return;
    const top = this.body.getBoundingClientRect().top + index * height;
    if (top < 150 || top > innerHeight - 2 * height) scrollTo(0, scrollY + top - innerHeight / 2);
    this.look();
    this.setState({}, () => this.body.querySelector(`[data-row="${place}"]`)?.focus({preventScroll: true}));
  }

  render({rows, query, printing}, {first, last}) {
    const height = rowHeight(), column = ORDERS[(query.sort || '').replace('-', '')]?.column && query.sort.replace('-', '');
    const shown = printing ? rows : rows.slice(first, last), skipped = printing ? 0 : first;
    const widest = TASKS.reduce((most, task) => Math.max(most, task.trials.length + task.old.length), 2) + COMPARED + 0.6;
    return html`<div role="table" class="table" aria-label="Tasks" aria-rowcount=${rows.length + 1}
      style=${`--row:${height}px;--strip:${Math.ceil(Math.min(MOST_CELLS + 2.6, widest) * 21)}px`}>
      <${Head} query=${query} column=${column} />
      <div role="rowgroup" class="tbody" ref=${(body) => { if (body) this.body = body; }} style=${`height:${printing ? 'auto' : `${rows.length * height}px`}`}>
        <div role="presentation" style=${`transform:translateY(${skipped * height}px)`}>
          ${shown.map((row, index) => row.group === undefined
            ? html`<${Row} key=${row.place} task=${row} number=${skipped + index + 2} column=${column} />`
            : html`<${GroupRow} key=${row.key} ...${row} number=${skipped + index + 2} />`)}
        </div>
      </div>
    </div>`;
  }
}

// The head has said what makes the newer run's figures doubtful.
function Runs() {
  return html`<section class="runs" aria-labelledby="runs-title"><h2 id="runs-title">Runs</h2>
    ${RUNS.map((run, place) => html`<div class="run" key=${place}>
      <p><b>${plain(run.name)}</b> <span class="dim">${[COMPARED && (place === NEWEST ? 'now' : 'before'), run.started_at && moment(run.started_at),
        run.ended_at ? `ended ${moment(run.ended_at)}` : run.started_at && 'never ended', run.exit_status !== null && `exit ${run.exit_status}`, plain(run.place)].filter(Boolean).join(' · ')}</span></p>
      ${COMPARED && place !== NEWEST && run.warnings.map((warning) => html`<p class="warning">${plain(warning)}</p>`)}
    </div>`)}
  </section>`;
}

function List({query, printing}) {
  const tasks = selectTasks(query), rows = query.group ? groupRows(tasks) : tasks;
  return html`<div class="list">
    <div class="columns">
      <${Buckets} query=${query} printing=${printing} />
      <section class="tasks" aria-label="Tasks">
        <${Toolbar} query=${query} rows=${tasks.length} />
        ${tasks.length ? html`<${Table} rows=${rows} query=${query} printing=${printing} />`
          : TASKS.length === 0 ? html`<p class="nothing">No trial has ended.</p>`
          : html`<p class="nothing">No task matches. <a href=${listHash(NO_QUERY)}>Show all ${count(TASKS.length)}</a></p>`}
      </section>
    </div>
    <${Runs} />
  </div>`;
}
