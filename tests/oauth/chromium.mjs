// A person at a real browser: node chromium.mjs FOLDER ADDRESS opens ADDRESS in a headless Chromium, logs in, agrees, and
// waits until the page is shown that the login ends at. FOLDER is where the packages were installed. Without ADDRESS it only
// starts and ends, which shows whether a browser runs here.
import {createRequire} from 'node:module';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

// Has the package bring the libraries too that a machine without a desktop may not have.
process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs22.x';

const [folder, address] = process.argv.slice(2);
const require = createRequire(path.join(folder, 'package.json'));
const load = async (name) => (await import(pathToFileURL(require.resolve(name)))).default;
const [chromium, puppeteer] = await Promise.all(['@sparticuz/chromium', 'puppeteer-core'].map(load));

const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath: await chromium.executablePath(),
  headless: 'shell',
});
try {
  if (address) await logIn(await browser.newPage());
} finally {
  await browser.close();
}

async function logIn(page) {
  const end = new URL(address).searchParams.get('redirect_uri');
  await page.goto(address);
  while (!page.url().startsWith(end)) await Promise.all([page.waitForNavigation(), page.evaluate(fillAndSubmit)]);
}

// In the page itself: keys and clicks get lost where a machine is too busy to paint.
function fillAndSubmit() {
  for (const [name, value] of [['login', 'jane'], ['password', 'any']]) {
    const input = document.querySelector(`input[name=${name}]`);
    if (input) input.value = value;
  }
  document.querySelector('button[type=submit]').click();
}
