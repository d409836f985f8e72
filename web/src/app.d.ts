declare global {
  namespace App {
    interface PageState {
      /** The action dialog that is open on top of a page, so that Back closes it. */
      dialog?: string;
    }
  }
}

export {};
