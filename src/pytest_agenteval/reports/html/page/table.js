// The table of tasks: as many rows in the document as fit on the screen, all of them on paper. One side has its
// trials, two have them before and now, more have a column each.

const MOST_ROW_CELLS = 12;
const HEAD = '12.8px';

let layout = {};
// What the table looks like for a query: which sides have columns, and how many cells fit into one.
function layoutOf(query) {
  const key = `${STAMP} ${OLD} ${NARROW.matches} ${sortOf(query).key}\n${query.hide.join('\n')}`;
  if (layout.key !== key) layout = {key, ...newLayout(query)};
  return layout;
}

function newLayout(query) {
  const sides = shownSides(query), matrix = SIDES.length > 2, cards = NARROW.matches;
  const most = (numbers) => TASKS.reduce((longest, task) => Math.max(longest, ...numbers.map((side) => task.sides[side].trials.length)), 1);
  const {key} = sortOf(query), column = orderOf(key).column ? key : '';
  const cells = cards ? 9 : matrix ? (sides.length > 4 ? 3 : sides.length > 3 ? 5 : 6) : MOST_ROW_CELLS / SIDES.length;
  const longest = most(sides), fitting = longest > cells ? cells - 1 : cells;
  const strip = Math.min(longest > cells ? fitting + 1.2 : longest, cells + 1) * 21;
  const height = cards ? 52 + 27 * sides.length : 48;
  const heading = OLD === null ? 0 : textWidth(SIDES.map(({label}) => label.slice(0, 20)).join(' → '), HEAD) + 8;
  const widest = Math.max(...sides.map((side) => textWidth(`${SIDES[side].label.slice(0, 14)}${side === OLD ? ' old' : ''}`, HEAD))) + 26;
  const score = matrix && `${Math.ceil(Math.max(widest, strip + (sides.length > 4 ? 42 : 48)))}px`;
  const grid = matrix ? `minmax(9rem, 1fr) repeat(${sides.length}, ${score}) 3.5rem${column ? ' 4rem' : ''}`
    : `minmax(0, 1fr) minmax(5rem, 8.5rem) ${Math.ceil(Math.max(heading, strip * SIDES.length + (SIDES.length - 1) * 30 + 12))}px 2.9rem${OLD === null ? '' : ' 3.3rem'}${column ? ' 4rem' : ''}`;
  return {sides, matrix, cards, column, cells: fitting, longest, height, grid, wide: matrix && sides.length > 6};
}

// ---- headings

class Menu extends Component {
  constructor(props) {
    super(props);
    this.state = {open: false};
    this.away = (event) => { if (this.state.open && !this.box.contains(event.target)) this.setState({open: false}); };
  }

  componentDidMount() { addEventListener('pointerdown', this.away); }
  componentWillUnmount() { removeEventListener('pointerdown', this.away); }

  onKey(event) {
    const items = [...this.box.querySelectorAll('[role=menuitem]')], at = items.indexOf(document.activeElement);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1}[event.key];
    if (event.key === 'Escape' && this.state.open) {
      event.stopPropagation();
      this.setState({open: false});
      this.box.querySelector('button').focus();
    } else if (to !== undefined && this.state.open) {
      event.preventDefault();
      items[to % items.length].focus();
    }
  }

  render({label, items}, {open}) {
    const toggle = () => this.setState({open: !open}, () => !open && this.box.querySelector('[role=menuitem]').focus());
    return html`<span class="menu" ref=${(box) => { this.box = box; }} onKeyDown=${(event) => this.onKey(event)}><button aria-haspopup="menu" aria-expanded=${open} aria-label=${label} title=${label} onClick=${toggle}>▾</button>
      ${open && html`<span class="menu-items" role="menu" aria-label=${label}>${items.map(([words, act]) => html`<button role="menuitem" key=${words} tabindex="-1" onClick=${() => { this.setState({open: false}); act(); }}>${words}</button>`)}</span>`}</span>`;
  }
}

function TableHead({query, layout}) {
  const now = sortOf(query), {sides, matrix, column} = layout;
  const heading = (key, words, kind, more) => {
    const active = now.key === key, down = active && now.backwards !== (orderOf(key).way < 0);
    return html`<span role="columnheader" key=${key} class=${kind} aria-sort=${active ? (down ? 'descending' : 'ascending') : undefined}>
      <button class="line" onClick=${() => goto({...query, sort: active && !now.backwards ? `-${key}` : key})}>${words}${active && html`<span aria-hidden="true">${down ? ' ↓' : ' ↑'}</span>`}</button>${more}</span>`;
  };
  const menu = (side) => {
    const {label} = SIDES[side], key = `side:${label}`;
    return html`<${Menu} label=${`column ${plain(label)}`} items=${[
      ['lowest score first', () => goto({...query, sort: key})], ['highest score first', () => goto({...query, sort: `-${key}`})],
      ...(side === OLD || !canBeOld(side) ? [] : [['compare others with it', () => goto({...query, old: side === INDEX.old ? '' : label})]]),
      ...(sides.length > 1 ? [['hide', () => goto({...query, hide: [...query.hide, label]})]] : [])]} />`;
  };
  const columns = matrix
    ? html`${sides.map((side) => heading(`side:${SIDES[side].label}`, html`${sideLabel(side)}${side === OLD && html` <span class="mark">old</span>`}`, 'of-side', menu(side)))}${heading('spread', 'Spread', 'number')}`
    : html`${heading('bucket', 'Bucket', 'where')}<span role="columnheader" class="trials line">${OLD === null ? 'Trials' : html`${sideLabel(OLD)} <span aria-label="then">→</span> ${sideLabel(newSide())}`}</span>
      ${heading('score', 'Score', 'number')}${OLD !== null && heading('change', 'Change', 'number')}`;
  return html`<div role="rowgroup" class="thead"><div role="row" class="row" aria-rowindex="1">
    ${heading('task', 'Task', 'what')}${columns}${column && heading(column, ORDERS[column].column, 'number')}</div></div>`;
}

// ---- rows

function worstEnding(task, sides) {
  const endings = placesOf(task, sides).map((place) => TRIALS[place].ending);
  return ['errored', 'failed', 'missed', 'passed'].find((ending) => endings.includes(ending));
}

// Of several sides the reason of the worst, with its name.
function Why({task, query, matrix}) {
  const sides = mainSides(query), places = askedTrials(task, query), place = worstOf(places.length ? places : placesOf(task, sideNumbers())), {reason, side} = TRIALS[place];
  return html`<span class="line reason" title=${oneLine(reason, 1000)}>${matrix && html`<span class="where-else">${plain(task.bucket) || 'no bucket'}${SUITES.length > 1 && `, ${plain(task.label)}`}</span> `}
    ${reason ? html`${sides.length > 1 && html`<b>${sideLabel(side)}</b> `}${oneLine(reason)}` : html`<span class="dim">all checks passed</span>`}</span>`;
}

function Flag({task, side}) {
  const flag = flagOf(task, side);
  return flag && html`<b class="flag ${flag === 'mended' ? 'good' : 'bad'}">${flag}</b>`;
}

// One side of a task: its trials and their mean; its colour is that of the change from the old side, and bold is
// what is broken or mended.
function SideCell({task, side, layout, fits}) {
  const {score, trials} = task.sides[side], change = changeOf(task, side), flag = flagOf(task, side);
  const kind = change > 1e-9 ? 'good' : change !== null && change < -1e-9 ? 'bad' : '';
  return html`<span role="cell" class="of-side"><span class="label line">${sideLabel(side) || plain(SIDES[side].name)}</span>
    ${trials.length ? html`<${Strip} places=${trials} most=${layout.cells} fits=${fits} />` : html`<span class="dim" title="no trials">–</span>`}
    <span class="number ${kind} ${flag}" title=${change === null ? undefined : `${flag && `${flag}: `}${signed(change)} from ${sideLabel(OLD)}`}>${trials.length > 0 && figure(score)}${flag && html`<span class="hidden"> ${flag}</span>`}</span>
    ${layout.cards && change !== null && html`<span class="by ${kind}">${signed(change)}</span>`}</span>`;
}

function PairCells({task, query, layout, fits}) {
  const {score, trials} = task.sides[newSide()], older = OLD === null ? [] : task.sides[OLD].trials;
  return html`<span role="cell" class="where">${breakable(task.bucket)}${SUITES.length > 1 && html`<span class="line dim">${plain(task.label)}</span>`}</span>
    <span role="cell" class="trials">${older.length > 0 && html`<${Strip} places=${older} most=${layout.cells} fits=${fits} /><span class="dim" aria-hidden="true">→</span>`}
      <${Strip} places=${trials} most=${layout.cells} fits=${fits} /></span>
    <span role="cell" class="number">${figure(score)}</span>
    ${OLD !== null && html`<span role="cell" class="number"><${Change} value=${changeOf(task, newSide())} /></span>`}`;
}

function Row({task, number, query, layout, fits}) {
  const {sides, matrix, cards, column} = layout, worst = worstTrial(task, query), main = mainSides(query);
  const open = (event) => {
    if (event.target.closest('a') || String(getSelection())) return;
    go(trialHash(worst));
  };
  return html`<div role="row" class="row task ${worstEnding(task, main) ?? ''} ${cards ? 'card' : ''}" aria-rowindex=${number} onClick=${open}>
    <span role="cell" class="what">
      <span class="line">${!matrix && html`<${Flag} task=${task} side=${newSide()} />`}<a class="name" data-row=${task.place} data-place=${worst} href=${trialHash(worst)}>${plain(task.task)}</a></span>
      <${Why} task=${task} query=${query} matrix=${matrix && sides.length < 5} /></span>
    ${matrix || cards ? sides.map((side) => html`<${SideCell} key=${side} task=${task} side=${side} layout=${layout} fits=${fits} />`)
      : html`<${PairCells} task=${task} query=${query} layout=${layout} fits=${fits} />`}
    ${matrix && !cards && html`<span role="cell" class="number dim">${figure(ORDERS.spread.value(task, sides))}</span>`}
    ${column && !cards && html`<span role="cell" class="number dim">${ORDERS[column].text(ORDERS[column].value(task, main))}</span>`}
  </div>`;
}

function GroupRow({group, suite, tasks, number, layout}) {
  const bucket = SUITES[suite].buckets.find(({name}) => name === group);
  return html`<div role="row" class="row group" aria-rowindex=${number}>
    <span role="cell"><b>${plain(group) || 'no bucket'}</b> <span class="dim">${SUITES.length > 1 ? `${plain(SUITES[suite].label)}, ` : ''}${plural(tasks, 'task')}</span></span>
    ${layout.matrix && !layout.cards && layout.sides.map((side) => {
      const figures = bucket?.sides[side], change = bucketChange(suite, group, side);
      return html`<span role="cell" class="of-side number" key=${side}>${figures && html`<span class="verdict ${tone(change?.verdict)}">${VERDICTS[change?.verdict] ?? ''}</span> ${figure(figures.score)}${figures.mark}`}</span>`;
    })}</div>`;
}

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
    const above = -this.body.getBoundingClientRect().top, {height} = layoutOf(this.props.query);
    const first = Math.max(0, Math.min(Math.floor(above / height), this.props.rows.length) - MARGIN_ROWS);
    const last = Math.max(Math.ceil((above + innerHeight) / height), MARGIN_ROWS) + MARGIN_ROWS;
    if (first !== this.state.first || last !== this.state.last || height !== this.state.height) this.setState({first, last, height});
  }

  // The next task's row gets the focus, scrolled to if it is not on the screen.
  move(by) {
    const {rows} = this.props, places = rows.flatMap((row, index) => (row.group === undefined ? [index] : []));
    const here = document.activeElement?.closest?.('.row.task')?.querySelector('.name').dataset.row, at = places.findIndex((index) => String(rows[index].place) === here);
    const next = places[at < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(places.length - 1, Math.max(0, at + by))];
    if (next !== undefined) this.focus(rows[next].place);
  }

  focus(place) {
    const index = this.props.rows.findIndex((row) => row.place === place), {height} = layoutOf(this.props.query);
    if (index < 0) return;
    const top = this.body.getBoundingClientRect().top + index * height;
    if (top < 150 || top > innerHeight - 2 * height) scrollTo(0, scrollY + top - innerHeight / 2);
    this.look();
    this.setState({}, () => this.body.querySelector(`[data-row="${place}"]`)?.focus({preventScroll: true}));
  }

  render({rows, query, printing}, {first, last}) {
    const layout = layoutOf(query), {fits} = select(query), {height} = layout;
    const shown = printing ? rows : rows.slice(first, last), skipped = printing ? 0 : first;
    return html`<div class="table-box ${layout.wide ? 'wide' : ''}"><div role="table" class="table ${layout.matrix ? 'matrix' : ''}" aria-label="Tasks" aria-rowcount=${rows.length + 1} style=${`--row:${height}px;--grid:${layout.grid}`}>
      <${TableHead} query=${query} layout=${layout} />
      <div role="rowgroup" class="tbody" ref=${(body) => { if (body) this.body = body; }} style=${`height:${printing ? 'auto' : `${rows.length * height}px`}`}>
        <div role="presentation" style=${`transform:translateY(${skipped * height}px)`}>
          ${shown.map((row, index) => (row.group === undefined
            ? html`<${Row} key=${row.key} task=${row} number=${skipped + index + 2} query=${query} layout=${layout} fits=${fits} />`
            : html`<${GroupRow} key=${row.key} ...${row} number=${skipped + index + 2} layout=${layout} />`))}
        </div>
      </div>
    </div></div>`;
  }
}
