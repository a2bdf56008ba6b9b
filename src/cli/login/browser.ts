import { spawn } from 'node:child_process';

/** Asks the desktop to open `url`. What comes of it cannot be known: the address is printed besides. */
export function openBrowser(url: string): void {
  const [command, ...args] = openerOf(process.platform);
  const child = spawn(command, [...args, url], { stdio: 'ignore', detached: true });
  // No such program: whoever sits here has the printed address.
  child.on('error', () => {});
  child.unref();
}

function openerOf(platform: NodeJS.Platform): [string, ...string[]] {
  if (platform === 'darwin') return ['open'];
  // Not `start`, which is the shell's, and would read the & in an address.
  if (platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler'];
  return ['xdg-open'];
}
