import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { type Disk, type FollowedRow, follow } from './follower.ts';

/** Asked again so soon, that a kill meets it at work. Milliseconds. */
const PAUSE_MS = 5;

type Line = ['row', string, FollowedRow] | ['clear'] | ['cursor', string | null];

/** A disk that a kill leaves as it is: a line for each write, in order; a last line that was cut off is not there. */
export function openDisk(path: string): Disk {
  const rows = new Map<string, FollowedRow>();
  let cursor: string | null = '0';
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
    if (line === '') continue;
    const [what, ...rest] = JSON.parse(line) as Line;
    if (what === 'clear') rows.clear();
    if (what === 'row') rows.set(rest[0] as string, rest[1] as FollowedRow);
    if (what === 'cursor') cursor = rest[0] as string | null;
  }
  // Or the next write would go on in it.
  if (existsSync(path)) truncateSync(path, Buffer.byteLength(text.slice(0, text.lastIndexOf('\n') + 1)));
  const write = (line: Line) => appendFileSync(path, `${JSON.stringify(line)}\n`);
  const kept = Object.assign(new Map(rows), {
    clear() {
      Map.prototype.clear.call(kept);
      write(['clear']);
    },
    set(key: string, row: FollowedRow) {
      Map.prototype.set.call(kept, key, row);
      write(['row', key, row]);
      return kept;
    },
  });
  return {
    rows: kept,
    get cursor() {
      return cursor;
    },
    set cursor(to) {
      cursor = to;
      write(['cursor', to]);
    },
  };
}

/** Follows for ever: `node follower-process.ts URL TOKEN FILE`. Its parent kills it. */
if (process.argv[1] === import.meta.filename) {
  const [, , url, token, file] = process.argv as [string, string, string, string, string];
  const disk = openDisk(file);
  const get = async (path: string) => {
    const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    return { status: response.status, body: (await response.json()) as JsonObject };
  };
  for (;;) {
    await follow(get, disk, () => undefined);
    await setTimeout(PAUSE_MS);
  }
}
