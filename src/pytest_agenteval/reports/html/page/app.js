// What is shown follows the address: `#/?show=missed&q=…` is the list, `#/t/NAME` a trial, `#/b/NAME/NAME` two of
// them beside each other. Nothing is stored.

const root = document.getElementById('app');
const head = document.getElementById('head');
let listQuery = NO_QUERY;
let listScroll = 0;
// `place` is the open trial and `pair` the two that stand beside each other; `chosen` waits for a second one.
let view = {place: -1, pair: null, opened: {}, unknown: '', printing: false, filtering: false, lastRow: null, chosen: [], choosing: false};

// ---- addresses

const encodedList = (values) => values.map(encodeURIComponent).join(',');

function listHash({show, facets, q, text, sort, group, old, hide}) {
  const pairs = [['show', encodedList(show)], ...Object.keys(FACETS).map((name) => [name, facets[name]?.length ? encodedList(facets[name]) : null]),
    ['text', encodeURIComponent(text)], ['q', encodeURIComponent(q)], ['sort', encodeURIComponent(sort)], ['group', group ? 'bucket' : ''], ['old', encodeURIComponent(old)], ['hide', encodedList(hide)]];
  // The bucket without a name is asked for by nothing.
  const query = pairs.filter(([name, value]) => value || (FACETS[name] && value === '')).map((pair) => pair.join('='));
  return query.length ? `#/?${query.join('&')}` : '#/';
}

const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

function parseQuery(text) {
  const pairs = Object.assign(Object.create(null), Object.fromEntries(text.split('&').map((pair) => pair.split(/=(.*)/))));
  const list = (name) => (pairs[name] === undefined ? [] : pairs[name].split(',').map(decoded));
  const word = (name) => decoded(pairs[name] ?? '');
  return {
    show: list('show').filter(Boolean), hide: list('hide').filter(Boolean), facets: Object.assign(Object.create(null), Object.fromEntries(Object.keys(FACETS).map((name) => [name, list(name)]))),
    q: word('q'), text: word('text'), sort: word('sort'), group: word('group') === 'bucket', old: word('old'),
  };
}

// Typing and walking replace the address, so that the back button goes to where one came from.
// What follows an address must not wait for its event: the next key may come before it.
function go(hash, replace = false) {
  if (replace) location.replace(hash); else location.hash = hash;
  follow();
}
const goto = (query, replace) => go(listHash(query), replace);

// Letters are shown at once; the address follows when one stops, for browsers allow only so many changes.
let typing = 0;
function type(q) {
  listQuery = {...listQuery, q};
  draw();
  clearTimeout(typing);
  typing = setTimeout(settle, 200);
}
function settle() {
  clearTimeout(typing);
  if (isList()) goto(listQuery, true);
}

// A trial by what stands for it in an address: its name, and its run where it is not that of the newest.
function trialAt(address) {
  const cut = address.indexOf('?'), name = decoded(cut < 0 ? address : address.slice(0, cut)), run = /[?&]run=(\d+)/.exec(address);
  return {name, place: findTrial(name, run ? Number(run[1]) : null)};
}

function readAddress() {
  const {hash} = location;
  if (hash.startsWith('#/t/')) return trialAt(hash.slice(4));
  if (hash.startsWith('#/b/')) {
    const two = hash.slice(4).split('/').slice(0, 2).map(trialAt), missing = two.find(({place}) => place < 0);
    return missing ?? (two.length === 2 ? {pair: two.map(({place}) => place)} : two[0]);
  }
  const cut = hash.indexOf('?');
  return {query: parseQuery(cut < 0 ? '' : hash.slice(cut + 1))};
}

// ---- showing

const isList = () => view.place < 0 && !view.pair && !view.unknown;

function draw() {
  const {place, pair, opened, unknown, printing} = view;
  render(html`<${Head} query=${listQuery} />`, head);
  render(html`${unknown
    ? html`<p class="nothing">No trial of this file is called <code>${plain(unknown)}</code>. <a href="#/">All tasks</a></p>`
    : pair ? html`<${Pair} pair=${pair} opened=${opened} />`
    : place >= 0 ? html`<${Trial} place=${place} opened=${opened} walk=${selectTrials(listQuery)} />`
      : html`<${List} query=${listQuery} printing=${printing} />`}<${Chosen} /><${Keys} />`, root);
}

async function attempt(mine, which, key, problem) {
  try { mine[key] = await readTrial(which); } catch (error) { mine[problem] = `This trial could not be read: ${plain(error.message)}.`; }
}

async function opening(mine, ...attempts) {
  const started = performance.now();
  await Promise.all(attempts);
  if (view.opened !== mine) return;
  mine.loading = false;
  draw();
  performance.measure('trial-opened', {start: started});
}

function open(place, beside, trial) {
  const other = oldTrial(place), mine = view.opened = {loading: true, beside, trial};
  opening(mine, attempt(mine, place, 'trial', 'problem'), beside && other >= 0 && attempt(mine, other, 'old', 'oldProblem'));
}

function openPair([one, other]) {
  const mine = view.opened = {loading: true};
  opening(mine, attempt(mine, one, 'old', 'oldProblem'), attempt(mine, other, 'trial', 'problem'));
}

function leaveList(title) {
  if (isList()) listScroll = scrollY;
  document.body.dataset.view = 'trial';
  document.title = `${plain(title)} · ${plain(INDEX.title)}`;
}

function shown() {
  draw();
  scrollTo(0, 0);
  root.querySelector('h1')?.focus({preventScroll: true});
}

function showTrial(place, name) {
  leaveList(name);
  const beside = view.place >= 0 && view.opened.beside;
  view = {...view, place, pair: null, unknown: place < 0 ? name : '', lastRow: TRIALS[place]?.row?.place ?? view.lastRow};
  if (place >= 0) open(place, beside);
  shown();
}

function showPair(pair) {
  leaveList(pair.map((place) => TRIALS[place].name).join(' | '));
  view = {...view, place: -1, pair, unknown: '', chosen: [], choosing: false, lastRow: TRIALS[pair[1]].row.place};
  openPair(pair);
  shown();
}

// The two that are beside each other, as far as they have been read.
function Pair({pair: [one, other], opened}) {
  const {row} = TRIALS[one], alike = row === TRIALS[other].row;
  const title = (place) => `${alike ? '' : `${plain(TRIALS[place].row.task)}, `}${SIDES.length > 1 ? `${sideLabel(TRIALS[place].side)}, ` : ''}repetition ${TRIALS[place].repetition}`;
  const sides = [{title: title(one), place: one, trial: opened.old, problem: opened.oldProblem}, {title: title(other), place: other, trial: opened.trial, problem: opened.problem}];
  return html`<div class="trial" key=${`${trialKey(one)} ${trialKey(other)}`}><header class="trial-head">
    <p class="crumbs"><a href=${listHash(listQuery)}>← All tasks</a> ${alike && html`<span class="dim">${plain(row.label)} · ${plain(row.bucket)}</span>`} <span class="steps"><${KeysButton} /></span></p>
    <h1 tabindex="-1">${alike ? breakable(row.task) : sides.map(({place}, at) => html`${at > 0 && html` <span class="dim">beside</span> `}${breakable(TRIALS[place].name)}`)}</h1></header>
    <${Beside} sides=${sides} /></div>`;
}

function showList(query) {
  const back = !isList();
  listQuery = query;
  const old = SIDES.findIndex((side) => side.label === query.old);
  OLD = old >= 0 ? old : INDEX.old;
  view = {...view, place: -1, pair: null, unknown: '', opened: {}};
  document.body.dataset.view = 'list';
  document.title = plain(INDEX.title);
  search(query.text);
  draw();
  if (back) scrollTo(0, listScroll);
  if (view.filtering) {
    const box = document.getElementById('filter');
    box.select();
    // What is found stands below it.
    if (box.getBoundingClientRect().top > innerHeight / 2) box.scrollIntoView({block: 'start'});
  } else if (back && view.lastRow !== null) Table.shown?.focus(view.lastRow);
  view.filtering = false;
}

let followed = null;
function follow() {
  if (location.hash === followed) return;
  followed = location.hash;
  const {query, name, place, pair} = readAddress();
  if (query) showList(query); else if (pair) showPair(pair); else showTrial(place, name);
}

// ---- two trials are chosen to stand beside each other

function startChoosing(choosing) {
  view = {...view, choosing, chosen: []};
  draw();
}

function choose(place) {
  const chosen = toggled(view.chosen, place);
  if (chosen.length === 2) return go(pairHash(...(TRIALS[chosen[0]].side > TRIALS[chosen[1]].side ? chosen.reverse() : chosen)));
  view = {...view, chosen, choosing: view.choosing && true};
  draw();
}

function Chosen() {
  if (!view.choosing && !view.chosen.length) return null;
  const [place] = view.chosen;
  return html`<p class="chosen-bar" role="status">${place === undefined ? 'Choose two trials: click their cells.'
    : html`<b>${plain(TRIALS[place].row.task)}</b> ${cellLabel(TRIALS[place])}. ${view.choosing ? 'Click' : html`Press <kbd>x</kbd> on, or click with Shift,`} the one to put beside it.`}
    <button onClick=${() => startChoosing(false)}>Cancel</button></p>`;
}

// ---- keys

const KEYS = [['/', 'find'], ['f', 'add a filter'], ['j  k', 'next, previous row or trial'], ['→  ←', 'next, previous cell of a row'], ['Enter', 'open the row or cell'], ['x', 'choose it; two chosen trials are compared'],
  ['o', 'show the old trial beside it'], ['n  p', 'next, previous difference of two trials'], ['u  Esc', 'back to the list'], ...(INDEX.live ? liveKeys() : []), ['?', 'these keys']];

const showKeys = () => document.getElementById('keys').showModal();
const KeysButton = () => html`<button class="keys-hint" aria-label="Keys" title="Keys" onClick=${showKeys}><kbd>?</kbd></button>`;

class Keys extends Component {
  shouldComponentUpdate() { return false; }
  render() {
    return html`<dialog id="keys" aria-label="Keys"><h2>Keys</h2><dl>${KEYS.map(([key, what]) => html`<div><dt>${key.split('  ').map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
      <button autofocus onClick=${() => document.getElementById('keys').close()}>Close</button></dialog>`;
  }
}

// A trial that is not walked through, such as an old one, stands where the first of its task does.
function placeIn(walk) {
  const at = walk.indexOf(view.place);
  return at >= 0 ? at : walk.findIndex((place) => TRIALS[place].row === TRIALS[view.place]?.row);
}

function step(by) {
  const walk = selectTrials(listQuery), next = walk[placeIn(walk) + by];
  if (next !== undefined) go(trialHash(next), true);
}

function toggleBeside() {
  if (view.place < 0 || oldTrial(view.place) < 0) return;
  open(view.place, !view.opened.beside, view.opened.trial);
  draw();
}

function toList() {
  if (view.chosen.length || view.choosing) startChoosing(false);
  else if (!isList()) goto(listQuery);
}

function focusFilter() {
  view.filtering = true;
  if (isList()) showList(listQuery); else goto(listQuery);
}

function addFilter() {
  if (!isList()) goto(listQuery);
  AddFilter.shown?.open();
}

// The row's name, then its cells.
function moveInRow(by) {
  const stops = [...(document.activeElement?.closest('.row.task')?.querySelectorAll('a') ?? [])];
  stops[stops.indexOf(document.activeElement) + by]?.focus();
}

function chooseHere() {
  const place = view.place >= 0 ? view.place : Number(document.activeElement?.dataset?.place ?? -1);
  if (place >= 0) choose(place);
  if (view.place >= 0 && view.chosen.length) goto(listQuery);
}

const walk = (by) => (view.place >= 0 ? step(by) : isList() && Table.shown?.move(by));
const ACTIONS = {
  __proto__: null,
  j: () => walk(1), k: () => walk(-1), ArrowRight: () => moveInRow(1), ArrowLeft: () => moveInRow(-1),
  o: toggleBeside, x: chooseHere, n: () => Beside.shown?.move(1), p: () => Beside.shown?.move(-1), u: toList, Escape: toList, f: addFilter, '/': focusFilter, '?': showKeys, ...(INDEX.live ? liveActions() : {}),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById('keys').open) return;
  const typing = event.target.closest('input:not([type=checkbox]):not([type=radio]), select, textarea');
  if (typing) {
    if (event.key !== 'Escape') return;
    // A browser would empty the box, and say so to nobody: the list would stay as it was.
    event.preventDefault();
    typing.blur();
    return;
  }
  if (event.key.startsWith('Arrow') && !event.target.closest('.row.task')) return;
  const action = ACTIONS[event.key];
  if (action) { event.preventDefault(); action(); }
}

// ---- paper: everything that is folded is opened, and all rows are drawn

let folded = [];
function beforePrint() {
  view.printing = true;
  draw();
  folded = [...root.querySelectorAll('details:not([open])')];
  for (const part of folded) part.open = true;
}
function afterPrint() {
  view.printing = false;
  for (const part of folded) part.open = false;
  draw();
}

// ---- a newer index: what is open stays open, by its name

function refresh(index) {
  const address = (place) => (place >= 0 ? trialAddress(place) : ''), placeOf = (text) => (text ? trialAt(text).place : -1);
  const {place, pair, chosen, opened} = view, before = [place, ...(pair ?? [-1, -1]), ...chosen].map(address);
  const row = TASKS[view.lastRow]?.key, state = place >= 0 ? JSON.stringify([TRIALS[place].attempts, TRIALS[place].ending]) : '';
  use(index);
  const [now, one, other, ...rest] = before.map(placeOf);
  const lastRow = TASKS.findIndex((task) => task.key === row);
  view = {...view, place: now, pair: pair && one >= 0 && other >= 0 ? [one, other] : null, chosen: rest.filter((each) => each >= 0), lastRow: lastRow < 0 ? null : lastRow};
  const old = SIDES.findIndex((side) => side.label === listQuery.old);
  if (old >= 0) OLD = old;
  if (now >= 0 && state !== JSON.stringify([TRIALS[now].attempts, TRIALS[now].ending])) open(now, opened.beside, opened.trial);
  if (listQuery.text) search(listQuery.text, true);
  // What was not there when its address was opened may have come.
  if (view.unknown && (readAddress().place ?? -1) >= 0) {
    followed = null;
    return follow();
  }
  draw();
}

root.replaceChildren();
head.replaceChildren();
document.querySelector('.skip')?.addEventListener('click', (event) => { event.preventDefault(); root.focus(); });
addEventListener('hashchange', follow);
addEventListener('keydown', onKey);
addEventListener('beforeprint', beforePrint);
addEventListener('afterprint', afterPrint);
NARROW.addEventListener('change', draw);
STACKED.addEventListener('change', draw);
follow();
performance.mark('list-usable');
if (INDEX.live) watch();
