import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { billOfMaterials } from './bill-of-materials.ts';
import { freeze, whatIsAmiss } from './checks.ts';
import { buildImage } from './image.ts';

/**
 * `npm run release`: what is given to others, made and summed up in `dist/release`; nothing is published. Refuses a tree that is
 * not fit for it. With `--dry-run` it says why it would have refused, goes on, and freezes nothing.
 */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TO = join(ROOT, 'dist/release');
const { version, name } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const { 'dry-run': isDry } = parseArgs({
  options: { 'dry-run': { type: 'boolean', default: false } },
}).values;

const say = (line: string) => process.stdout.write(`${line}\n`);
function refuse(why: readonly string[]): void {
  if (why.length === 0) return;
  for (const line of why) say(`${isDry ? 'would refuse' : 'refused'}: ${line}`);
  if (!isDry) process.exit(1);
}
function npm(...args: string[]): boolean {
  return spawnSync('npm', args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}

refuse(whatIsAmiss(ROOT));
// Nothing of an older build: what was renamed since would be packed, too.
rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
mkdirSync(TO, { recursive: true });
refuse(npm('run', '-s', 'build') ? [] : ['it does not build']);
refuse(
  npm('exec', '--', 'vitest', 'run', 'test/golden')
    ? []
    : ['the goldens do not hold: npx vitest run test/golden'],
);
refuse(npm('pack', '--silent', '--pack-destination', TO) ? [] : ['it cannot be packed']);
writeFileSync(join(TO, `${name}-${version}.cdx.json`), billOfMaterials(ROOT));
const image = buildImage(ROOT, `${name}:${version}`, join(TO, `${name}-${version}.oci.tar`));
refuse(image.failed ? [image.said] : []);

const files = readdirSync(TO).toSorted();
const sum = (file: string) =>
  createHash('sha256')
    .update(readFileSync(join(TO, file)))
    .digest('hex');
writeFileSync(join(TO, 'SHA256SUMS'), files.map((file) => `${sum(file)}  ${file}\n`).join(''));

for (const file of files) say(`dist/release/${file}: ${(statSync(join(TO, file)).size / 1e6).toFixed(1)} MB`);
say('dist/release/SHA256SUMS: check with sha256sum -c');
say(image.said);
if (!isDry) {
  const steps = freeze(ROOT);
  if (steps.length > 0)
    say(`drizzle/frozen.json: ${steps.join(', ')} may not change any more; commit it with the release`);
}
say('nothing was published');
