// What is shown follows the address: `#/?show=missed&q=…` is the list, `#/t/NAME` a trial. Nothing is stored.

const NO_QUERY = {show: [], bucket: null, suite: null, q: '', sort: '', group: false};
const root = document.getElementById('app');
let listQuery = NO_QUERY;
let listScroll = 0;
let view = {place: -1, opened: {}, unknown: '', printing: false, filtering: false, lastRow: null};

function listHash({show, bucket, suite, q, sort, group}) {
  const pairs = {show: show.length ? show : null, suite, bucket, q: q || null, sort: sort || null, group: group ? 'bucket' : null};
  const query = Object.entries(pairs).filter(([, value]) => value !== null).map(([key, value]) => `${key}=${[value].flat().map(encodeURIComponent)}`);
  return query.length ? `#/?${query.join('&')}` : '#/';
}

const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

function parseQuery(text) {
  const pairs = Object.fromEntries(text.split('&').map((pair) => pair.split(/=(.*)/)));
  return {
    show: (pairs.show ?? '').split(',').filter(Boolean).map(decoded),
    bucket: pairs.bucket === undefined ? null : decoded(pairs.bucket),
    suite: pairs.suite === undefined ? null : decoded(pairs.suite),
    q: decoded(pairs.q ?? ''), sort: decoded(pairs.sort ?? ''), group: pairs.group === 'bucket',
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
  if (view.place < 0) goto(listQuery, true);
}

function readAddress() {
  const hash = location.hash, cut = hash.indexOf('?');
  const path = cut < 0 ? hash : hash.slice(0, cut), rest = cut < 0 ? '' : hash.slice(cut + 1);
  if (!path.startsWith('#/t/')) return {query: parseQuery(rest)};
  const run = /(?:^|&)run=(\d+)/.exec(rest), name = decoded(path.slice(4));
  return {name, place: findTrial(name, run ? Number(run[1]) : null)};
}

// ---- showing

function draw() {
  const {place, opened, unknown, printing} = view;
  render(html`${unknown
    ? html`<p class="nothing">No trial of this file is called <code>${plain(unknown)}</code>. <a href="#/">All tasks</a></p>`
    : place >= 0 ? html`<${Trial} place=${place} opened=${opened} walk=${selectTrials(listQuery)} />`
      : html`<${List} query=${listQuery} printing=${printing} />`}<${Keys} />`, root);
  markChips();
}

async function open(place, beside, trial) {
  const other = oldTrial(place), mine = view.opened = {loading: true, beside, trial};
  const attempt = async (which, key, problem) => {
    try { mine[key] = await readTrial(which); } catch (error) { mine[problem] = `This trial could not be read: ${plain(error.message)}.`; }
  };
  const started = performance.now();
  await Promise.all([attempt(place, 'trial', 'problem'), beside && other >= 0 && attempt(other, 'old', 'oldProblem')]);
  if (view.opened !== mine) return;
  mine.loading = false;
  draw();
  performance.measure('trial-opened', {start: started});
}

function showTrial(place, name) {
  if (view.place < 0) listScroll = scrollY;
  const beside = view.place >= 0 && view.opened.beside;
  view = {...view, place, unknown: place < 0 ? name : '', lastRow: TRIALS[place]?.row?.place ?? view.lastRow};
  document.body.dataset.view = 'trial';
  document.title = `${plain(name)} · ${plain(INDEX.title)}`;
  if (place >= 0) open(place, beside);
  draw();
  scrollTo(0, 0);
  root.querySelector('h1')?.focus({preventScroll: true});
}

function showList(query) {
  const back = view.place >= 0 || view.unknown;
  listQuery = query;
  view = {...view, place: -1, unknown: '', opened: {}};
  document.body.dataset.view = 'list';
  document.title = plain(INDEX.title);
  draw();
  if (back) scrollTo(0, listScroll);
  if (view.filtering) document.getElementById('filter').select();
  else if (back && view.lastRow !== null) Table.shown?.focus(view.lastRow);
  view.filtering = false;
}

let followed = null;
function follow() {
  if (location.hash === followed) return;
  followed = location.hash;
  const {query, name, place} = readAddress();
  if (query) showList(query); else showTrial(place, name);
}

// ---- chips of the head, which stand in the file as links: here they switch on and off

function markChips() {
  for (const chip of document.querySelectorAll('.chip')) chip.setAttribute('aria-pressed', String(listQuery.show.includes(chip.dataset.filter)));
}

function wireChips() {
  for (const chip of document.querySelectorAll('.chip')) {
    chip.setAttribute('role', 'button');
    chip.addEventListener('click', (event) => {
      event.preventDefault();
      goto({...listQuery, show: toggled(listQuery.show, chip.dataset.filter)});
    });
    chip.addEventListener('keydown', (event) => {
      if (event.key === ' ') { event.preventDefault(); chip.click(); }
    });
  }
}

// ---- keys

const KEYS = [['/', 'filter'], ['j  k', 'next, previous row or trial'], ['Enter', 'open the row'], ['o', 'the trial before beside it'], ['u  Esc', 'back to the list'], ['?', 'these keys']];

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
  if (view.place >= 0 || view.unknown) goto(listQuery);
}

function focusFilter() {
  view.filtering = true;
  if (view.place >= 0 || view.unknown) toList(); else showList(listQuery);
}

const ACTIONS = {
  j: () => (view.place >= 0 ? step(1) : Table.shown?.move(1)),
  k: () => (view.place >= 0 ? step(-1) : Table.shown?.move(-1)),
  o: toggleBeside, u: toList, Escape: toList, '/': focusFilter, '?': showKeys,
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById('keys').open) return;
  const typing = event.target.closest('input:not([type=checkbox]), select, textarea');
  if (typing) {
    if (event.key === 'Escape') typing.blur();
    return;
  }
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

root.replaceChildren();
document.querySelector('.skip')?.addEventListener('click', (event) => { event.preventDefault(); root.focus(); });
wireChips();
addEventListener('hashchange', follow);
addEventListener('keydown', onKey);
addEventListener('beforeprint', beforePrint);
addEventListener('afterprint', afterPrint);
follow();
performance.mark('list-usable');
