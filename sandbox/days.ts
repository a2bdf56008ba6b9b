const DAY_MS = 86_400_000;

/** The day, `YYYY-MM-DD` in UTC, so many days after `today`. */
export const daysFrom = (today: Date, days: number): string =>
  new Date(today.getTime() + days * DAY_MS).toISOString().slice(0, 10);
