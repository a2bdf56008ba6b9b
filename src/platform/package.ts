import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The path of a file or folder next to package.json, wherever this module is: `src` and `dist` have different depths. */
export function packagePath(name: string): string {
  return fileURLToPath(new URL(name, import.meta.resolve('#package.json')));
}

function manifest(): { name: string; version: string } {
  return JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as { name: string; version: string };
}

export function version(): string {
  return manifest().version;
}

/** Name and version, as the upstream's operators see us in their logs. */
export function userAgent(): string {
  const { name, version } = manifest();
  return `${name}/${version}`;
}
