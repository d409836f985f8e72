// Light, dark, or as the system says.

type Theme = "system" | "light" | "dark";
const KEY = "trueup-theme";

class ThemeChoice {
  choice = $state<Theme>("system");

  start(): void {
    const kept = localStorage.getItem(KEY);
    this.set(kept === "light" || kept === "dark" ? kept : "system");
  }

  set(choice: Theme): void {
    this.choice = choice;
    if (choice === "system") {
      localStorage.removeItem(KEY);
      delete document.documentElement.dataset["theme"];
    } else {
      localStorage.setItem(KEY, choice);
      document.documentElement.dataset["theme"] = choice;
    }
  }

  next(): void {
    this.set(this.choice === "system" ? "light" : this.choice === "light" ? "dark" : "system");
  }
}

export const theme = new ThemeChoice();
