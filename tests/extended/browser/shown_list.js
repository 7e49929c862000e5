// Gives all figures of the list as a browser shows them: the words of each cell, without what is for readers of
// screens alone.
(() => {
  const text = (element) => {
    if (!element) return null;
    const copy = element.cloneNode(true);
    copy.querySelectorAll('.hidden, .menu, svg').forEach((part) => part.remove());
    return copy.textContent.replace(/\s+/g, ' ').trim();
  };
  const all = (selector, read, root = document) => [...root.querySelectorAll(selector)].map(read);
  const cells = (row) => all(':scope > td', (cell) => text(cell), row);
  return {
    kicker: text(document.querySelector('#head .kicker')),
    headline: text(document.querySelector('#head h1')),
    strip: all('.strip-of-figures > div', (each) => [text(each.querySelector('dt')), text(each.querySelector('dd'))]),
    sides: all('.sides-table tbody tr', (row) => ({label: text(row.querySelector('th label')), old: row.querySelector('input').checked,
      cells: all(':scope > td:not(.plot-cell)', (cell) => text(cell), row)})),
    sideHeads: all('.sides-table thead th', (cell) => text(cell)),
    chips: Object.fromEntries(all('.chip', (chip) => [chip.dataset.filter, Number(text(chip.querySelector('b')).replaceAll(',', ''))])),
    suites: all('.buckets .suite', (suite) => all('li > a', (each) => ({name: text(each.querySelector('.name')).replace(/ compared over .*/, ''),
      part: text(each.querySelector('.part')) ?? '', plot: each.querySelector('.plot')?.getAttribute('aria-label') ?? '', title: each.title,
      cells: all(':scope > .number', (cell) => text(cell), each),
      lines: all(':scope > .figures', (line) => all(':scope > :not(svg)', (cell) => text(cell), line), each)}), suite)),
    causes: all('.causes tbody tr', (row) => [text(row.querySelector('th a')), ...cells(row)]),
    causesTitle: text(document.querySelector('.causes h2 .dim')),
    heads: all('.thead [role=columnheader]', (head) => text(head)),
    rows: all('.row.task', (row) => ({place: Number(row.querySelector('.name').dataset.row), name: text(row.querySelector('.name')), where: text(row.querySelector('.where') ?? row.querySelector('.where-else')),
      strips: all('.strip', (strip) => all('.cell', (cell) => cell.getAttribute('aria-label'), strip), row),
      numbers: all(':scope > .number', (cell) => text(cell), row),
      sides: all(':scope > .of-side', (cell) => ({label: text(cell.querySelector('.label')), score: text(cell.querySelector('.number')), title: cell.querySelector('.number').title}), row)})),
    groups: all('.row.group', (row) => ({name: text(row.querySelector('b')), about: text(row.querySelector('.dim')),
      cells: all(':scope > .of-side', (cell) => text(cell), row)})),
    boards: all('#boards tbody tr', (row) => all('th, td:not(.dots)', (cell) => cell.textContent, row).join(' ')),
    status: text(document.querySelector('.toolbar .status')),
    pictures: all('.pictures-of-list .figure-table table', (table) => ({suite: table.closest('.of-suite')?.getAttribute('aria-label'), caption: text(table.querySelector('caption')) ?? table.caption.textContent,
      heads: all('thead th', (head) => head.textContent, table), rows: all('tbody tr', (row) => all('th, td', (cell) => cell.textContent, row), table)})),
  };
})()
