// A picture of every screen, in light and dark, on a desktop and on a phone, each checked with axe. The
// pictures are for people to look at; a violation, an error on the page or a broken policy fails.
// SCREENS=service,drift takes some; LOOKS=light,dark-phone some looks.
import { mkdirSync } from "node:fs";

import AxeBuilder from "@axe-core/playwright";
import type { Browser, Page } from "playwright-core";

import { launch, open, signIn, TOKEN, watchForTrouble, type Look } from "./support/browser.ts";
import { someInvoice } from "./support/invoice.ts";
import { OPERATOR } from "./support/operator.ts";
import { invoiceScreens, SCREENS, type Screen } from "./support/screens.ts";

const folder = new URL("../screenshots/", import.meta.url).pathname;
const LOOKS: Record<string, Look> = {
  light: { theme: "light" },
  dark: { theme: "dark" },
  "light-phone": { theme: "light", phone: true },
  "dark-phone": { theme: "dark", phone: true },
};

const only = process.env["SCREENS"]?.split(",");
const looks = Object.entries(LOOKS).filter(([name]) => process.env["LOOKS"]?.split(",").includes(name) ?? true);
const invoice = OPERATOR ? await someInvoice() : undefined;
const all = invoice ? [...SCREENS, ...invoiceScreens(invoice.id, invoice.lines[0]?.id ?? "")] : SCREENS;
const screens = all.filter((screen) => only?.includes(screen.name) ?? true);
const failures: string[] = [];
mkdirSync(folder, { recursive: true });

/** Waits until the page shows values instead of their outlines. */
async function settle(page: Page): Promise<void> {
  await page.waitForLoadState("load");
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => document.querySelector(".shimmer") === null);
  // Dialogs ask for their preview, and charts for their library, after they are drawn.
  await page.waitForFunction(() => document.querySelector("dialog [aria-busy=true], [role=img][aria-busy=true]") === null);
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}

async function take(page: Page, screen: Screen, look: string, trouble: string[]): Promise<void> {
  await page.goto(screen.path);
  await settle(page);
  await page.screenshot({ path: `${folder}${screen.name}-${look}.png` });
  const { violations } = await new AxeBuilder({ page }).analyze();
  for (const one of violations) {
    const where = one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")}: ${node.html.slice(0, 120)}`);
    failures.push(`${screen.name} ${look}: ${one.id} (${one.impact ?? ""}): ${one.help}\n    ${where.join("\n    ")}`);
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) failures.push(`${screen.name} ${look}: wider than the screen by ${wide} px`);
  failures.push(...trouble.splice(0).map((one) => `${screen.name} ${look}: ${one}`));
}

async function as(browser: Browser, name: string, look: Look, token: string | undefined, wanted: Screen[]): Promise<void> {
  if (wanted.length === 0) return;
  const context = await open(browser, look);
  const page = await context.newPage();
  const trouble = watchForTrouble(page);
  if (token) await signIn(page, token);
  for (const screen of wanted) {
    await take(page, screen, name, trouble).catch((error: unknown) => failures.push(`${screen.name} ${name}: ${String(error)}`));
  }
  await context.close();
}

const browser = await launch();
for (const [name, look] of looks) {
  await as(browser, name, look, undefined, screens.filter((screen) => screen.anonymous));
  await as(browser, name, look, TOKEN, screens.filter((screen) => !screen.anonymous && !screen.operator));
  if (OPERATOR) await as(browser, name, look, OPERATOR, screens.filter((screen) => screen.operator));
}
await browser.close();
console.log(`${screens.length} screens in ${looks.length} looks: ${folder}`);
if (failures.length > 0) {
  console.error(failures.join("\n"));
  process.exitCode = 1;
}
