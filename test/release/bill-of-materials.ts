import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Locked {
  /** A folder of this repository. */
  link?: true;
  dev?: true;
  devOptional?: true;
  devDependencies?: unknown;
}

/** package.json and package-lock.json, without what only developing takes. */
export function runningOnly(root: string) {
  const read = (name: string) => JSON.parse(readFileSync(join(root, name), 'utf8'));
  const { devDependencies: _, overrides: __, ...manifest } = read('package.json');
  const lock = read('package-lock.json') as { packages: Record<string, Locked> };
  const kept = Object.entries(lock.packages).filter(
    ([, each]) => !each.dev && !each.devOptional && !each.link,
  );
  const packages = Object.fromEntries(kept);
  delete packages['']?.devDependencies;
  return { manifest, lock: { ...lock, packages } };
}

/**
 * What runs of the packages, in CycloneDX. `npm sbom --omit dev` leaves out what a development package wants as well (pg and zod
 * among them, npm 11), so that it is asked about a lock file that holds nothing else.
 */
export function billOfMaterials(root: string): string {
  const { manifest, lock } = runningOnly(root);
  const above = mkdtempSync(join(tmpdir(), 'bill-of-materials-'));
  try {
    // npm calls the whole by its folder's name.
    const folder = join(above, manifest.name);
    mkdirSync(folder);
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
    return execFileSync('npm', ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx'], {
      cwd: folder,
      encoding: 'utf8' as const,
      maxBuffer: 2 ** 26,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } finally {
    rmSync(above, { recursive: true, force: true });
  }
}
