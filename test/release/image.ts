import { spawnSync } from 'node:child_process';

const PLATFORMS = 'linux/amd64,linux/arm64';

interface Builder {
  name: string;
  /** Exits with 0 where it can build. */
  probe: readonly string[];
  /** `file`: where an archive of the image may go. */
  build(tag: string, file: string): readonly string[];
}

const BUILDERS: readonly Builder[] = [
  {
    name: 'docker buildx',
    probe: ['docker', 'info'],
    build: (tag, file) => [
      ...['docker', 'buildx', 'build', '--platform', PLATFORMS, '--tag', tag],
      ...['--output', `type=oci,dest=${file}`, '.'],
    ],
  },
  // Only Docker's format has a place for HEALTHCHECK. The image stays in their own storage, as a manifest of both platforms.
  ...['buildah', 'podman'].map((name) => ({
    name,
    probe: [name, 'info'],
    build: (tag: string) => [
      name,
      'build',
      '--format',
      'docker',
      '--platform',
      PLATFORMS,
      '--manifest',
      tag,
      '.',
    ],
  })),
];

const run = ([command, ...args]: readonly string[], stdio: 'ignore' | 'inherit', cwd: string) =>
  spawnSync(command!, args, { stdio, cwd }).status === 0;

/** Builds the image for both platforms, by the first builder that works here, and says what came of it. */
export function buildImage(root: string, tag: string, file: string): { said: string; failed: boolean } {
  const builder = BUILDERS.find(({ probe }) => run(probe, 'ignore', root));
  if (builder === undefined) {
    const names = BUILDERS.map(({ name }) => name).join(', ');
    return { said: `no image was built: none of ${names} works on this machine`, failed: false };
  }
  const failed = !run(builder.build(tag, file), 'inherit', root);
  return {
    said: failed
      ? `${builder.name} could not build the image; for a platform that is not this machine's it needs QEMU (binfmt)`
      : `${tag}, for ${PLATFORMS}, built by ${builder.name}`,
    failed,
  };
}
