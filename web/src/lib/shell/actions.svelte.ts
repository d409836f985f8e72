// What the page that is shown offers to do, for the palette.

export interface PageAction {
  text: string;
  /** Why it is not possible now. */
  reason?: string | undefined;
  run: () => void;
}

class ActionsHere {
  list = $state.raw<PageAction[]>([]);
}

export const actionsHere = new ActionsHere();

/** Offers actions for as long as the component lives. */
export function offer(actions: () => PageAction[]): void {
  $effect(() => {
    const list = actions();
    actionsHere.list = list;
    return () => {
      if (actionsHere.list === list) actionsHere.list = [];
    };
  });
}
