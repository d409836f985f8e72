// The names behind the ids that events are about, read for the ids that are on screen and not known yet.
import { api, take } from "./api/client";
import { placeOfLookup } from "./model/lookup";
import { current } from "./session.svelte";

export interface Named {
  name: string;
  href?: string | undefined;
}

class Names {
  #known = $state.raw(new Map<string, Named>());
  #asked = new Set<string>();
  #org = "";
  #wanted = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** The name of a subject, or its id until the name is known. */
  of(id: string): Named {
    if (this.#org !== current.org) this.#begin(current.org);
    const known = this.#known.get(id);
    if (!known && !this.#asked.has(id)) {
      this.#asked.add(id);
      this.#wanted.add(id);
      this.#timer ??= setTimeout(() => void this.#read(), 20);
    }
    return known ?? { name: id };
  }

  #begin(org: string): void {
    this.#org = org;
    this.#asked.clear();
    this.#wanted.clear();
    queueMicrotask(() => (this.#known = new Map()));
  }

  async #read(): Promise<void> {
    this.#timer = undefined;
    const ids = [...this.#wanted];
    this.#wanted.clear();
    const services = ids.filter((id) => id.startsWith("svc_"));
    const found = new Map(this.#known);
    try {
      if (services.length > 0) {
        const page = await take(api.GET("/v1/services", { params: { query: { ids: services.join(","), limit: 1000 } } }));
        for (const one of page.items) {
          found.set(one.id, { name: `${one.project}/${one.name}`, href: `${current.base}/projects/${one.project}/services/${one.name}` });
        }
      }
      if (ids.some((id) => id.startsWith("prj_"))) {
        for (const one of (await take(api.GET("/v1/projects"))).items) {
          found.set(one.id, { name: one.name, href: `${current.base}/projects/${one.name}` });
        }
      }
      // A deleted service is in no list, but its id still says what it was.
      const gone = ids.filter((id) => !found.has(id) && /^(svc|prj|cls)_/.test(id)).slice(0, 8);
      await Promise.all(
        gone.map(async (id) => {
          const { data } = await api.GET("/v1/lookup/{id}", { params: { path: { id } } });
          if (data) found.set(id, { name: data.project && data.kind === "service" ? `${data.project}/${data.name}` : data.name, href: placeOfLookup(current.base, data) });
        }),
      );
      this.#known = found;
    } catch {
      // The ids stay: they are right, if less readable.
    }
  }
}

export const names = new Names();
