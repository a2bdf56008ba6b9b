import { readFileSync } from 'node:fs';

/** As package.json says. One folder up both from the sources and from what is built of them. */
export function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
