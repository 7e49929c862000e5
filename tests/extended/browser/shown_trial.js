// Gives the figures of the trial that is open.
(() => {
  const text = (element) => element?.textContent.replace(/\s+/g, ' ').trim() ?? '';
  const summary = document.querySelector('.summary'), parts = [...summary.children].filter((part) => part.className === 'dim');
  return {
    title: text(document.querySelector('.trial h1')),
    ending: text(summary.querySelector('.ending')), score: text(summary.querySelector('.score')),
    task: parts.length > 1 ? text(parts[0]) : '', change: text(summary.querySelector('.change')), facts: text(parts.at(-1)).split(' · '),
    rows: Object.fromEntries([...document.querySelectorAll('.facts > dl > div')].map((row) => [text(row.querySelector('dt')), text(row.querySelector('dd'))])),
    grades: [...document.querySelectorAll('.grade > header')].map(text),
  };
})()
