import { readFileSync } from 'node:fs';

/** Name and version, as the upstream's operators see us in their logs. */
export function userAgent(): string {
  // Two folders up both from the sources and from what is built of them.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const { name, version } = JSON.parse(text) as { name: string; version: string };
  return `${name}/${version}`;
}
