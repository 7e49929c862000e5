// The leaderboard of a suite: best first, sorted by any column, levels opened to their metrics.

const {board: BOARD} = JSON.parse(document.getElementById('board').textContent);
const ROWS = BOARD ? BOARD.rows.map((row, place) => ({...row, place})) : [];
let picks = [], sorted = {};  // by table: the column's place, and which way

// What has no figure comes last, whichever way the rest goes; equal ones stay best first.
function inOrderOf(table, columns) {
  const {column, up} = sorted[table] ?? {};
  if (column === undefined) return ROWS;
  const value = (row) => columns[column].cells[row.place][1];
  return [...ROWS].sort((one, other) => {
    const x = value(one), y = value(other);
    if (x === null || y === null) return (x === null) - (y === null);
    return up ? x - y : y - x;
  });
}

function sortBy(table, column) {
  const now = sorted[table];
  sorted = {...sorted, [table]: now?.column !== column ? {column, up: false} : now.up ? undefined : {column, up: true}};
  draw();
}

function Board({name, columns, caption}) {
  const {column, up} = sorted[name] ?? {};
  return html`<figure class="board" tabindex="0" aria-label=${plain(caption)}><table class="standings">
    <caption class="unseen">${plain(caption)}</caption>
    <thead><tr><td class="check"></td><th scope="col" class="who">Model</th>${columns.map(({title, block, says}, at) => html`<th scope="col" class="number ${block}" title=${says} aria-sort=${column === at ? (up ? 'ascending' : 'descending') : undefined}>
      <button onClick=${() => sortBy(name, at)}>${breakable(title)}${column === at && html`<span aria-hidden="true">${up ? ' ↑' : ' ↓'}</span>`}</button></th>`)}</tr></thead>
    <tbody>${inOrderOf(name, columns).map((row) => html`<tr key=${row.place} class=${picks.includes(row.side) ? 'picked' : ''}>
      <td class="check"><${Pick} value=${row.side} words=${`Compare ${row.name}`} hidden picks=${picks} onPick=${onPick} /></td>
      <th scope="row" class="who"><a href=${reportOf([row.side])}>${breakable(row.who)}</a>${row.note && html` <span class="dim">${plain(row.note)}</span>`}<span class="run dim">${breakable(row.run)}</span></th>
      ${columns.map(({cells, block}, at) => html`<td class="number ${block} ${at === 0 ? 'first' : ''} ${cells[row.place][1] === null ? 'dim' : ''}">${plain(cells[row.place][0])}</td>`)}
    </tr>`)}</tbody></table></figure>`;
}

function Page() {
  if (!BOARD) return html`<p class="nothing">No run of this suite has trials.</p>`;
  const {suite, columns, groups, notes, caveats, broken} = BOARD;
  return html`<h1>${plain(suite)}</h1>
    ${broken.map((words) => html`<p class="warning">${plain(words)}</p>`)}
    <${Board} name="all" columns=${columns} caption=${`${suite}: models, best first`} />
    ${caveats.map((words) => html`<p class="warning">${plain(words)}</p>`)}
    ${notes.map((words) => html`<p class="note">${plain(words)}</p>`)}
    ${groups.map((group) => html`<details key=${group.name}><summary><h2>${plain(group.name)}</h2> <span class="dim">${plural(group.columns.length - 3, 'metric')}</span></summary>
      <${Board} name=${`group ${group.name}`} columns=${group.columns} caption=${`metrics of ${group.name}`} /></details>`)}
    <${Compare} picks=${picks} onPick=${onPick} />`;
}

function onPick(next) {
  // In the order of the table, from the last to the first: the best is the newest side.
  picks = ROWS.map((row) => row.side).filter((pick) => next.includes(pick)).reverse();
  draw();
}
const draw = () => render(html`<${Page} />`, root);

root.replaceChildren();
draw();
document.body.dataset.view = 'leaderboard';
performance.mark('list-usable');
