const root = document.getElementById('app');

// Sides to compare: a run, a model or a variant of it, a baseline; picked on a page, and shown by the report.

const side = (...parts) => parts.map(encodeURIComponent).join('/');
const reportOf = (picks) => `/report?${new URLSearchParams(picks.map((pick) => ['side', pick]))}`;
const toggled = (list, name) => (list.includes(name) ? list.filter((other) => other !== name) : [...list, name]);
const sideWords = (pick) => {
  const [kind, name, model, variant] = pick.split('/').map(decodeURIComponent);
  const who = variant ? `${model || 'all models'}@${variant}` : model;
  return `${kind === 'baseline' ? 'baseline ' : ''}${name}${who ? `, ${who}` : ''}`;
};

function Pick({value, words, hidden, picks, onPick}) {
  return html`<label class=${hidden ? 'pick' : 'part'}><input type="checkbox" checked=${picks.includes(value)} data-pick=${value}
    onChange=${() => onPick(toggled(picks, value))} /> <span class=${hidden ? 'unseen' : ''}>${plain(words)}</span></label>`;
}

// The bar with what was picked, in the order in which the report has it: the first side is the old one.
function Compare({picks, onPick}) {
  if (!picks.length) return null;
  return html`<section class="compare" aria-label="Sides to compare">
    <ol>${picks.map((pick) => html`<li key=${pick}><button class="pill" aria-label=${`leave out ${plain(sideWords(pick))}`} onClick=${() => onPick(toggled(picks, pick))}>${plain(sideWords(pick))} <span aria-hidden="true">×</span></button></li>`)}</ol>
    <p><a class="go" href=${reportOf(picks)}>${picks.length === 1 ? 'Open 1 side' : `Compare ${picks.length} sides`}</a> <button onClick=${() => onPick([])}>Clear</button></p>
    ${picks.length > 1 && html`<p class="dim">${plain(sideWords(picks[0]))} is the old side: the others are compared with it.</p>`}
  </section>`;
}

document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); root.focus(); });
