// Debian's Chromium, and a page that is signed in.
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

/** The server under test: a running Trueup that serves the built dashboard. */
export const BASE_URL = need("BASE_URL");
/** A token of the org's owner, to sign in with. */
export const TOKEN = need("TRUEUP_TOKEN");
export const ORG = process.env["TRUEUP_ORG"] ?? "demo";

function need(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: see docs/guides/dashboard.md`);
  return value;
}

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export interface Look {
  theme?: "light" | "dark";
  phone?: boolean;
}

export async function open(browser: Browser, look: Look = {}, proxy?: string): Promise<BrowserContext> {
  return browser.newContext({
    ...(proxy ? { proxy: { server: proxy, bypass: "<-loopback>" } } : {}),
    baseURL: BASE_URL,
    colorScheme: look.theme ?? "light",
    reducedMotion: "reduce",
    viewport: look.phone ? { width: 360, height: 780 } : { width: 1440, height: 900 },
    ...(look.phone ? { hasTouch: true, isMobile: true } : {}),
  });
}

/** Signs in through the page, as a person does. */
export async function signIn(page: Page, token = TOKEN): Promise<void> {
  await page.goto("/sign-in?with=key");
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((url) => !url.pathname.startsWith("/sign-in"));
}

/** What must never happen on a page: errors, refused resources, broken policies. */
export function watchForTrouble(page: Page): string[] {
  const trouble: string[] = [];
  page.on("pageerror", (error) => trouble.push(`page error: ${error.message}`));
  page.on("console", (message) => {
    // A refused request is an answer that the page shows; the browser logs it in any case.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) trouble.push(`console: ${message.text()}`);
  });
  void page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  return trouble;
}
