// Edits an ensemble in the page as a person does, in a real browser, and prints what was seen as JSON.
import fs from 'node:fs';
import path from 'node:path';
import { browse, judged, pictures, project, seen, serve, watch } from './base.mjs';

const file = path.join(project, 'ensembles/design.yaml');
const onDisk = () => fs.readFileSync(file, 'utf8');
const script = () => fs.readFileSync(path.join(project, 'ensembles/two.rhai'), 'utf8');
const { server, link } = await serve(0);
const browser = await browse();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  watch(page);
  await page.addInitScript(() => {
    const Source = EventSource;
    window.told = [];
    window.EventSource = class extends Source {
      constructor(...given) {
        super(...given);
        this.addEventListener('file', event => window.told.push(JSON.parse(event.data).text));
      }
    };
  });
  const text = () => page.inputValue('.source');
  const state = word => page.waitForSelector(`h1 .badge:text-is("${word}")`);
  const sum = told => page.waitForFunction(told => document.querySelector('.found .sum')?.textContent === told, told);
  const saved = async () => {
    await page.click('button:has-text("Save")');
    await page.waitForSelector('h1 .badge.good');
    return onDisk();
  };
  await page.goto(link);
  await page.waitForSelector('table.runs');
  await page.click('nav a:has-text("New run")');
  await page.click('.cards a[aria-label="Edit design"]');
  await page.waitForSelector('.graph svg');
  await sum('Nothing found');
  seen.opened = await page.locator('.graph g.agent').count();
  await judged(page, 'design');

  // Typing shows a finding at its line; a click goes there; the fix is a click.
  await page.focus('.source');
  await page.evaluate(() => {
    const field = document.querySelector('.source');
    const at = field.value.indexOf('script: one');
    field.setSelectionRange(at + 3, at + 4);
  });
  await page.keyboard.press('Delete');
  await sum('1 error');
  seen.marked = await page.innerText('.gutter .line.error');
  seen.finding = await page.innerText('.findings li button');
  await judged(page, 'design-finding');
  await page.click('.findings .plain-button');
  seen.went = await page.evaluate(() => {
    const field = document.querySelector('.source');
    return field.value.slice(field.selectionStart, field.selectionEnd);
  });
  await page.click('.findings .fix');
  await sum('Nothing found');
  await state('saved');

  // Tab indents, and does not hold the keyboard.
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('x-more:');
  await page.keyboard.press('Enter');
  await page.keyboard.type('a: 1');
  await page.keyboard.press('Home');
  await page.keyboard.press('Tab');
  seen.typed = (await text()).slice(-20);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  seen.left = await page.evaluate(() => document.activeElement.className);
  await page.focus('.source');
  for (let steps = 0; steps < 12 && !(await page.isDisabled('button:has-text("Undo")')); steps += 1) await page.keyboard.press('Control+z');
  await state('saved');
  seen.undone = (await text()) === onDisk();

  // Edits in the graph: by keyboard and by mouse.
  await page.click('summary:has-text("Add an agent")');
  await page.getByLabel('Name', { exact: true }).fill('third');
  await page.getByLabel('What it runs').fill('one.rhai');
  await page.getByLabel('Listens to', { exact: true }).selectOption('second');
  await page.getByLabel('Listens to', { exact: true }).focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.chosen h2:has-text("third")');
  await state('unsaved');
  seen.added = await saved();
  await judged(page, 'design-agent');

  await page.click('button:has-text("Choose it in the graph")');
  await page.focus('.graph g.agent[data-agent="first"]');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.chosen li:has-text("first")');
  seen.connected = await saved();

  await page.getByLabel('Condition with which third listens to first').fill("output.n > 1 and output.word != 'no'");
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.graph').textContent.includes('if output.n'));
  seen.conditioned = await saved();

  // The other keys of a dependency; the keyboard stays where it is. Feedback to an agent that runs only once is refused, and says what to do.
  const focused = () => page.evaluate(() => document.activeElement.dataset.stays);
  await page.getByLabel('Closes a loop (feedback): first').focus();
  await page.keyboard.press('Space');
  await page.waitForSelector('.complaint');
  seen.vain = [await page.innerText('.complaint'), await page.getByLabel('Closes a loop (feedback): first').isChecked()];
  await page.locator('.chosen').getByLabel('conversation.max_turns', { exact: true }).fill('2');
  await page.keyboard.press('Enter');
  await state('unsaved');
  await page.waitForFunction(() => document.activeElement.dataset.stays);
  seen.turns_focused = await focused();
  seen.turned = await saved();
  await page.getByLabel('Closes a loop (feedback): first').focus();
  await page.keyboard.press('Space');
  await state('unsaved');
  await page.waitForFunction(() => document.activeElement.dataset.stays);
  seen.feedback = [await focused(), await page.isChecked('.chosen [data-stays="1 first feedback"]')];
  seen.fed = await saved();
  await page.focus('.chosen summary:has-text("about first")');
  await page.keyboard.press('Enter');
  await page.getByLabel('After (first)').selectOption('any');
  await state('unsaved');
  await judged(page, 'design-keys');
  seen.any = await saved();
  await page.getByLabel('Starts at most (first)').fill('0');
  await page.keyboard.press('Tab');
  await page.waitForSelector('.complaint');
  seen.limit = [await page.innerText('.complaint'), await page.inputValue('[data-key="max_executions"] >> nth=1')];
  await page.click('button:has-text("Undo")');
  await page.click('button:has-text("Undo")');
  seen.unkeyed = (await saved()) === seen.turned;
  await page.waitForFunction(() => !document.querySelector('.chosen [data-stays="1 first feedback"]').checked);

  await page.click('.graph g.agent[data-agent="first"]');
  await page.waitForSelector('.chosen h2:has-text("first")');
  await page.locator('.chosen').getByLabel('Name', { exact: true }).fill('begin');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.chosen h2:has-text("begin")');
  seen.renamed = await saved();
  seen.script = script();
  // Taken back after it was saved, the name is taken back in the script, too.
  await page.click('button:has-text("Undo")');
  seen.name_back = (await saved()).includes('name: first') && script();
  await page.click('button:has-text("Redo")');
  await saved();

  await page.click('.graph g.agent[data-agent="third"]');
  await page.click('.chosen button[aria-label="Remove the dependency on second"]');
  await page.waitForFunction(() => document.querySelectorAll('.chosen li').length === 1);
  seen.disconnected = await saved();
  await page.click('.chosen button:has-text("Remove agent")');
  await page.waitForFunction(() => document.querySelectorAll('.graph g.agent').length === 2);
  seen.removed = await saved();
  // What cannot be done is told.
  await page.click('.graph g.agent[data-agent="second"]');
  await page.locator('.chosen').getByLabel('Name', { exact: true }).fill('begin');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.complaint');
  seen.refused = await page.innerText('.complaint');
  // All of it is undone, step by step, and done again.
  const after = await text();
  while (!(await page.isDisabled('button:has-text("Undo")'))) await page.click('button:has-text("Undo")');
  seen.back = await saved();
  seen.script_back = script();
  while (!(await page.isDisabled('button:has-text("Redo")'))) await page.click('button:has-text("Redo")');
  seen.again = (await saved()) === after;
  seen.script_again = script();

  // Another program writes the file: at once, if there is nothing unsaved.
  const other = onDisk().replace('# the end', '# another end');
  fs.writeFileSync(file, other);
  await page.waitForFunction(() => document.querySelector('.source').value.includes('# another end'));
  await state('saved');
  seen.followed = await text() === other;
  // News that come while a text is saved are older than it: the page keeps what it has saved.
  let went;
  const held = new Promise(resolve => { went = resolve; });
  await page.route('**/api/design/save', async route => {
    await held;
    await route.continue();
  });
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('# late');
  const late = await text();
  const reads = [];
  page.on('request', request => request.url().includes('/api/design/file') && reads.push(request));
  await page.click('button:has-text("Save")');
  const older = other.replace('# another end', '# an older end');
  fs.writeFileSync(file, older);
  await page.waitForFunction(older => window.told.includes(older), older);
  fs.writeFileSync(file, other);
  went();
  await page.waitForResponse('**/api/design/file?*');
  await page.unroute('**/api/design/save');
  await page.waitForFunction(late => window.told.at(-1) === late, late);
  await state('saved');
  seen.late = (await text()) === late && onDisk() === late && reads.length >= 1;
  await page.click('button:has-text("Undo")');
  await saved();
  await page.waitForFunction(other => window.told.at(-1) === other, other);
  // With an unsaved text it is told; the file wins, and the text is kept.
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('# mine');
  const mine = await text();
  const theirs = other.replace('# another end', '# their end');
  fs.writeFileSync(file, theirs);
  await page.waitForSelector('.notice p');
  seen.told = await page.innerText('.notice p');
  await page.keyboard.press('Control+s');
  await page.waitForSelector('.notice textarea');
  await judged(page, 'design-conflict');
  seen.conflict = { disk: onDisk() === theirs, shown: (await text()) === theirs, kept: (await page.inputValue('.notice textarea')) === mine };
  await page.click('nav a:has-text("Overview")');
  await page.waitForSelector('table.runs');
  await page.goBack();
  await page.click('.notice button:has-text("Copy")');
  seen.copied = (await page.evaluate(() => navigator.clipboard.readText())) === mine;
  await page.click('.notice button:has-text("Put it back")');
  seen.put = (await text()) === mine;
  seen.kept = (await saved()) === mine;

  // A text that was left unsaved is there again.
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type(' and more');
  await page.click('nav a:has-text("Overview")');
  await page.waitForSelector('table.runs');
  await page.goBack();
  await state('unsaved');
  seen.draft = (await text()) === `${mine} and more`;
  await page.focus('.source');
  await page.keyboard.press('Control+z');
  await state('saved');

  // A text without a graph keeps the last one.
  await page.keyboard.press('Control+Home');
  await page.keyboard.type('[');
  await page.waitForSelector('.graph.old svg');
  seen.old = await page.getAttribute('.drawing .graph', 'aria-label');
  await page.keyboard.press('Control+z');
  await page.waitForSelector('.graph:not(.old) svg');

  // The test file of the ensemble, as text.
  await page.click('.edit-head a:has-text("design.test.yaml")');
  await page.waitForSelector('h1:has-text("design.test.yaml")');
  await sum('Nothing found');
  seen.alone = (await page.locator('.graph').count()) === 0;
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('  - nme: two\n');
  await page.waitForSelector('.findings li');
  await judged(page, 'design-tests');
  seen.tests = await page.innerText('.findings li >> nth=0');
  for (let steps = 0; steps < 12 && !(await page.isDisabled('button:has-text("Undo")')); steps += 1) await page.click('button:has-text("Undo")');
  await page.focus('.source');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('# kept');
  await page.click('button:has-text("Save")');
  await state('saved');
  seen.tested = fs.readFileSync(path.join(project, 'ensembles/design.test.yaml'), 'utf8');
  await page.click('.edit-head a:has-text("design")');
  await page.waitForSelector('.graph svg');

  // A new ensemble, by keyboard.
  await page.click('nav a:has-text("New run")');
  await page.focus('summary:has-text("New ensemble")');
  await page.keyboard.press('Enter');
  await page.getByLabel('Name of a new ensemble').fill('design');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.complaint');
  seen.taken = await page.innerText('.complaint');
  await page.getByLabel('Name of a new ensemble').fill('tea');
  await judged(page, 'new-ensemble');
  await page.keyboard.press('Enter');
  await page.waitForSelector('h1:has-text("tea")');
  await page.waitForSelector('.graph g.agent');
  await sum('Nothing found');
  await judged(page, 'new-opened');
  seen.created = fs.existsSync(path.join(project, 'ensembles/tea.yaml'));

  // A loop with a limit, from the new ensemble and without touching its text.
  const redrawn = async work => {
    const old = await page.locator('.design-panel').evaluateHandle(panel => panel.lastElementChild);
    await work();
    await page.waitForFunction(element => !element.isConnected, old);
  };
  const form = page.locator('.adding');
  await form.locator('summary').click();
  await form.getByLabel('Name', { exact: true }).fill('critic');
  await form.getByLabel('Kind').selectOption('model');
  await form.getByLabel('What it runs').fill('simulated/critic');
  await form.getByLabel('Prompt').fill('Judge {{ companion.response }}');
  await form.getByLabel('Listens to').selectOption('companion');
  await redrawn(() => form.getByRole('button', { name: 'Add agent' }).click());
  const keyField = name => page.locator('.design-panel').getByLabel(name, { exact: true });
  const set = async (name, value) => redrawn(async () => {
    await keyField(name).fill(value);
    await keyField(name).blur();
  });
  await set('output_schema', '{type: object, required: [good], properties: {good: {type: boolean}}}');
  await set('conversation.max_turns', '3');
  await redrawn(() => page.click('.graph g.agent[data-agent="companion"]'));
  // What is wrong is said at the field, and what was typed stays there.
  await keyField('prompt').fill('{{ nobody.response }}');
  await keyField('prompt').blur();
  await page.waitForSelector('.design-panel [aria-invalid="true"]');
  seen.wrong = [await keyField('prompt').inputValue(), await page.locator('.design-panel .field:has([aria-invalid="true"]) .failure').innerText()];
  await judged(page, 'design-form');
  await set('conversation.max_turns', '3');
  await page.locator('.chosen fieldset').getByLabel('Condition').fill('not output.good');
  await page.locator('.chosen fieldset').getByLabel('Closes a loop (feedback)').check();
  await redrawn(() => page.locator('.chosen fieldset').getByRole('button', { name: 'Connect' }).click());
  await set('prompt', '{{ input }} {{ critic.response }}');
  await page.locator('.file-settings > summary').click();
  await set('result', 'text: outputs.companion.response');
  await set('conversation_limits.max_total_turns', '6');
  await set('success', 'outputs.critic.good');
  await sum('Nothing found');
  await page.click('button:has-text("Save")');
  await state('saved');
  await judged(page, 'design-loop');
  seen.loop = fs.readFileSync(path.join(project, 'ensembles/tea.yaml'), 'utf8');

  // Dark, and narrow.
  const dark = await browser.newContext({ viewport: { width: 380, height: 780 }, colorScheme: 'dark' });
  const small = await dark.newPage();
  watch(small);
  await small.goto(link);
  await small.getByRole('region', { name: 'Ensembles' }).waitFor();
  await small.click('nav a:has-text("New run")');
  await small.waitForSelector('.cards');
  await small.click('summary:has-text("New ensemble")');
  await judged(small, 'narrow-new');
  await small.goto(new URL('/#/edit/design', link).href);
  await small.waitForSelector('.graph svg');
  await judged(small, 'narrow-design');
  await small.click('.graph g.agent[data-agent="second"]');
  await small.waitForSelector('.chosen');
  await judged(small, 'narrow-design-agent');
  seen.wide = await small.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (pictures) {
    await small.setViewportSize({ width: 1280, height: 800 });
    await small.screenshot({ path: path.join(pictures, 'dark-design.png') });
  }
} catch (error) {
  seen.failed = error.message.slice(0, 900);
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
console.log(JSON.stringify(seen));
