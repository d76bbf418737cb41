// Opens the page of a long run in a real browser, each time with a server that has just started, and prints the milliseconds from the
// click on the run until its first execution is there.
import { browse, serve } from '../../tests/browser/base.mjs';

const opened = [];
const browser = await browse();
try {
  for (let round = 0; round < 7; round += 1) {
    const { server, link } = await serve(0);
    const context = await browser.newContext({ viewport: { width: 1200, height: 760 } });
    const page = await context.newPage();
    await page.goto(link);
    await page.waitForSelector('table.runs tbody th a');
    const begun = performance.now();
    await page.click('table.runs tbody th a');
    await page.waitForSelector('.row.execution');
    opened.push(performance.now() - begun);
    await context.close();
    server.kill('SIGKILL');
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(opened));
process.exit(0);
