import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runningOnly } from './bill-of-materials.ts';

/**
 * Called by "npm pack": the versions and integrities of what runs go into the package, since npm leaves package-lock.json out of it.
 * So an installation gets what was tested.
 */
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
writeFileSync(join(ROOT, 'npm-shrinkwrap.json'), `${JSON.stringify(runningOnly(ROOT).lock, null, 2)}\n`);
