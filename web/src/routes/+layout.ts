// A static app: every page is drawn in the browser, from the API.
export const ssr = false;
export const prerender = false;
