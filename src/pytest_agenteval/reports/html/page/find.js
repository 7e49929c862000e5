// Finding: words in names and reasons as one types, words in transcripts on demand, and filters by their values.

// ---- in transcripts: chunk after chunk, so that the largest file can be searched, and left at any time

// Characters of transcripts in lower case that are kept, so that the next search need not unpack them again.
const MOST_KEPT = 16e6 * Math.min(navigator.deviceMemory ?? 4, 8);
const keptTexts = new Map();
let keptCharacters = 0;

const Search = {
  text: '', places: new Set(), done: 0, unread: 0, running: false,
  found(text) { return text === this.text ? this.places : new Set(); },
  progress() { return `${this.text} ${this.done}`; },
  stop() { this.running = false; draw(); },
};

const phrasesOf = (text) => [...text.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map(([, phrase, word]) => phrase ?? word);

const trialsByChunk = kept(() => {
  const places = new Map();
  TRIALS.forEach(({chunk: number}, place) => {
    if (number !== null) places.set(number, [...(places.get(number) ?? []), place]);
  });
  return [...places].sort(([a], [b]) => a - b);
});
const searchable = () => (INDEX.live ? TRIALS.length : trialsByChunk().reduce((sum, [, places]) => sum + places.length, 0));

// The words of any value, with the names of its fields.
function gather(value, texts) {
  if (value === null || typeof value !== 'object') texts.push(plain(value));
  else for (const [key, inner] of Object.entries(value)) {
    if (!Array.isArray(value)) texts.push(key);
    gather(inner, texts);
  }
}

// The words of a transcript: what was said and called, how it ended, which files changed.
function searchText(trial) {
  const texts = [];
  for (const {content, reasoning, calls} of trial.messages) {
    texts.push(content, reasoning);
    for (const {tool, args, raw_args, result, error, reply} of calls) {
      texts.push(tool, raw_args ?? '', reply, ...(error ? [error.type, error.message] : []));
      gather([args, result], texts);
    }
  }
  for (const {path, hunks} of trial.files) texts.push(path, ...hunks.flatMap(({rows}) => rows.map((row) => row[2] ?? row[1])));
  for (const {kind, text, details} of trial.events) { texts.push(kind, text); gather(details, texts); }
  gather([trial.answer, trial.state, trial.output, trial.log], texts);
  return texts.join('\n');
}

// JSON in lower case is JSON still, and most chunks lack some phrase: they need not be taken apart.
async function searchChunk(number, places, phrases) {
  const text = keptTexts.get(number) ?? (await chunkText(number)).toLowerCase();
  if (keptCharacters < MOST_KEPT && !keptTexts.has(number)) {
    keptTexts.set(number, text);
    keptCharacters += text.length;
  }
  if (phrases.some((phrase) => !/["\\\s]/.test(phrase) && !text.includes(phrase))) return [];
  const trials = JSON.parse(text).map(searchText);
  return places.filter((place) => phrases.every((phrase) => trials[TRIALS[place].at].includes(phrase)));
}

// One search at a time: a newer one, or none, ends it. What was found so far is shown while it goes on.
async function search(text, again = false) {
  if (text === Search.text && !again) return;
  const isNew = text !== Search.text;
  Object.assign(Search, {text, running: text !== '', ...(isNew && {places: new Set(), done: 0, unread: 0})});
  if (!text) return;
  const phrases = phrasesOf(text), started = performance.now(), mine = () => Search.running && Search.text === text;
  let drawn = started;
  if (INDEX.live) {
    const found = await liveSearch(text).catch(() => null);
    if (mine()) Object.assign(Search, {places: new Set(found ?? []), done: found ? TRIALS.length : 0, unread: found ? 0 : TRIALS.length, running: false});
    return draw();
  }
  let passed = 0;
  for (const [number, places] of trialsByChunk()) {
    passed += places.length;
    if (passed <= Search.done) continue;
    const found = await searchChunk(number, places, phrases).catch(() => null);
    if (!mine()) return;
    if (found) found.forEach((place) => Search.places.add(place)); else Search.unread += places.length;
    Search.done = passed;
    if (performance.now() - drawn > 300) {
      draw();
      // Letters typed and clicks come through.
      await new Promise((later) => setTimeout(later));
      drawn = performance.now();
    }
  }
  Search.running = false;
  draw();
  performance.measure('searched', {start: started});
}

function SearchState({query}) {
  if (!query.text) return null;
  const {done, places, running, unread} = Search, all = searchable(), missing = TRIALS.length - all;
  const lacks = [unread && `${count(unread)} could not be read`, missing && `${plural(missing, 'trial')} without a stored transcript`].filter(Boolean).join(', ');
  return html`<div class="searching" role="status">
    ${running && html`<progress max=${all} value=${done} aria-label="transcripts searched"></progress>`}
    <span>${plural(places.size, 'trial')} with ${phrasesOf(query.text).map((phrase, at) => html`${at > 0 && ' and '}<b>${plain(phrase)}</b>`)}
      <span class="dim"> ${done < all ? `in ${count(done)} of ${plural(all, 'transcript')}` : `in ${plural(all, 'transcript')}`}${lacks && `, ${lacks}`}</span></span>
    ${running ? html`<button onClick=${() => Search.stop()}>Stop</button>`
      : done < all && html`<button onClick=${() => { search(query.text, true); draw(); }}>Continue</button>`}</div>`;
}

// ---- what one types may be the name of a tool, a grader, a side: then it is one click

const MOST_OFFERED = 6;

function offers(q, query) {
  const text = q.trim().toLowerCase();
  const found = facetCounts().flatMap(([name, counts]) => counts.filter(([value]) => facetText(name, value).toLowerCase().includes(text)
    && !(query.facets[name] ?? []).includes(value)).slice(0, 2).map(([value, tasks]) => ({name, value, tasks})));
  return found.slice(0, MOST_OFFERED);
}

function Offers({query}) {
  if (!query.q.trim()) return null;
  return html`<p class="offers">
    ${searchable() > 0 && html`<a class="offer" href=${listHash({...query, q: '', text: query.q.trim()})}>search ${plural(searchable(), 'transcript')} for <b>${plain(query.q.trim())}</b></a>`}
    ${offers(query.q, query).map(({name, value, tasks}) => html`<a class="offer" key=${`${name} ${value}`} href=${listHash(facetQuery({...query, q: ''}, name, [...(query.facets[name] ?? []), value]))}>
      <span class="dim">${FACETS[name].words}</span> ${oneLine(facetText(name, value), 60)} <span class="dim">${count(tasks)}</span></a>`)}</p>`;
}

// ---- one control for all filters

const MOST_VALUES = 7;

class AddFilter extends Component {
  constructor(props) {
    super(props);
    this.state = {open: false, text: ''};
    this.away = (event) => { if (this.state.open && !this.box.contains(event.target)) this.close(); };
    AddFilter.shown = this;
  }

  componentDidMount() { addEventListener('pointerdown', this.away); }
  componentWillUnmount() { removeEventListener('pointerdown', this.away); AddFilter.shown = null; }

  open() { this.setState({open: true, text: ''}, () => this.box.querySelector('input').focus()); }
  close(focus) {
    this.setState({open: false});
    if (focus) this.box.querySelector('button').focus();
  }

  onKey(event) {
    if (event.key === 'Escape') { event.stopPropagation(); this.close(true); }
    // The first of what is left; the arrows lead to the others.
    if (event.key === 'Enter' && event.target.matches('input') && this.state.text) this.box.querySelector('.panel button')?.click();
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const stops = [...this.box.querySelectorAll('.panel input, .panel button')], at = stops.indexOf(document.activeElement);
    stops[(at + (event.key === 'ArrowDown' ? 1 : stops.length - 1)) % stops.length].focus();
  }

  panel(query, text) {
    const words = filterWords(text);
    const groups = facetCounts().map(([name, counts]) => [name, counts.filter(([value]) => {
      const line = `${FACETS[name].words} ${facetText(name, value)}`.toLowerCase();
      return words.every((word) => line.includes(word));
    })]).filter(([, counts]) => counts.length);
    return html`<div class="panel" role="dialog" aria-label="Add a filter">
      <input type="search" placeholder="side, tool, grader, tag …" aria-label="Find a filter" value=${text} onInput=${(event) => this.setState({text: event.target.value})} />
      <div class="values">${groups.map(([name, counts]) => html`<div role="group" key=${name} aria-label=${FACETS[name].words}><h3>${FACETS[name].words}</h3>
        ${counts.slice(0, text ? 4 * MOST_VALUES : MOST_VALUES).map(([value, tasks]) => {
          const chosen = query.facets[name] ?? [];
          return html`<button key=${value} aria-pressed=${chosen.includes(value)} onClick=${() => goto(facetQuery(query, name, toggled(chosen, value)), false)}>
            <span class="value">${oneLine(facetText(name, value), 120)}</span> <span class="dim">${plural(tasks, 'task')}</span></button>`;
        })}
        ${!text && counts.length > MOST_VALUES && html`<p class="dim">${count(counts.length - MOST_VALUES)} more: type to find them</p>`}</div>`)}
        ${!groups.length && html`<p class="dim">No filter matches.</p>`}</div>
    </div>`;
  }

  render({query}, {open, text}) {
    return html`<div class="add-filter" ref=${(box) => { this.box = box; }} onKeyDown=${(event) => this.onKey(event)}>
      <button class="plain" aria-expanded=${open} aria-haspopup="dialog" onClick=${() => (open ? this.close() : this.open())}>+ filter</button>
      ${open && this.panel(query, text)}</div>`;
  }
}

// ---- what narrows the rows now

function Pill({name, words, href, verb = 'remove filter'}) {
  return html`<a class="pill" href=${href} aria-label=${`${verb} ${name ? `${name} ` : ''}${words}`}>${name && html`<span class="dim">${name}</span> `}${words}<span aria-hidden="true"> ×</span></a>`;
}

function Pills({query}) {
  const pills = [
    ...query.show.map((chip) => ({words: plain(chip), next: {...query, show: toggled(query.show, chip)}})),
    ...Object.entries(query.facets).flatMap(([name, values]) => values.map((value) => (
      {name: FACETS[name].words, words: oneLine(facetText(name, value), 80), next: facetQuery(query, name, toggled(values, value))}))),
    ...(query.text ? [{name: 'in transcripts', words: plain(query.text), next: {...query, text: ''}}] : []),
  ];
  const hidden = query.hide.filter((label) => SIDES.some((side) => side.label === label));
  if (!pills.length && !hidden.length) return null;
  return html`<p class="pills">${pills.map(({name, words, next}) => html`<${Pill} key=${`${name} ${words}`} name=${name} words=${words} href=${listHash(next)} />`)}
    ${hidden.map((label) => html`<${Pill} key=${`hidden ${label}`} name="hidden" words=${plain(label)} verb="show again" href=${listHash({...query, hide: toggled(query.hide, label)})} />`)}
    ${pills.length > 1 && html`<a class="clear" href=${listHash({...query, show: [], facets: NO_QUERY.facets, text: ''})}>clear all</a>`}</p>`;
}

function typedKey(event, query) {
  if (event.key === 'ArrowDown') {
    event.preventDefault();
    (document.querySelector('.offer') ?? document.querySelector('.row.task .name'))?.focus();
  }
  // What is typed is looked for in names and reasons at once; Enter looks for it in transcripts.
  if (event.key === 'Enter' && query.q.trim() && searchable()) goto({...query, q: '', text: query.q.trim()});
}

function Toolbar({query, tasks}) {
  const rows = countTasks(tasks), all = countTasks(TASKS), {key} = sortOf(query);
  return html`<div class="toolbar" role="search">
    <input id="filter" type="search" placeholder="Find tasks, reasons, words   /" aria-label="Find tasks, reasons, buckets, tools, and words in transcripts"
      value=${query.q} onInput=${(event) => type(event.target.value)} onChange=${settle} onKeyDown=${(event) => typedKey(event, query)} />
    <${AddFilter} query=${query} />
    <label class="choice"><span class="hidden">Order</span>
      <select value=${key} onChange=${(event) => goto({...query, sort: event.target.value})}>
        ${[...ordersNow(), ...(ORDERS[key] ? [] : [key])].map((name) => html`<option value=${name} selected=${name === key}>${orderOf(name).words}</option>`)}
      </select></label>
    <label class="choice"><input type="checkbox" checked=${query.group} onChange=${() => goto({...query, group: !query.group})} /> by bucket</label>
    <button class="plain" aria-pressed=${view.choosing} title="Choose two trials to see them side by side" onClick=${() => startChoosing(!view.choosing)}>compare two trials</button>
    <p class="status" role="status">${rows === all ? plural(rows, 'task') : `${count(rows)} of ${plural(all, 'task')}`}</p>
    <${KeysButton} />
    <${Offers} query=${query} /><${Pills} query=${query} /><${SearchState} query=${query} />
  </div>`;
}
