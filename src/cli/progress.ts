import type { Screen } from './cli.ts';

/** For a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;
/** On a terminal one line is redrawn. Elsewhere every line stays, so there are fewer. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 10_000;

/** Shows one line that is redrawn on a terminal, and a line now and then elsewhere. */
export function progressOn(screen: Screen) {
  let shownAt = performance.now();
  let isOpen = false;
  const end = () => {
    if (isOpen) screen.write('\r\u001b[K');
    isOpen = false;
  };
  return {
    /** Clears the terminal's line, as disposing does. */
    end,
    [Symbol.dispose]: end,
    /** Asks for the text only when it is time to show one. */
    show(text: () => string): void {
      if (performance.now() - shownAt < (screen.isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      shownAt = performance.now();
      end();
      const shown = text();
      if (shown === '') return;
      // A line that wraps could not be redrawn.
      screen.write(screen.isTerminal ? shown.slice(0, (screen.columns ?? USUAL_COLUMNS) - 1) : `${shown}\n`);
      isOpen = screen.isTerminal;
    },
  };
}

/** While a Retry-After runs. */
export const pauseWords = (until: string) => `waits until ${until}, as the service asked (Retry-After)`;
