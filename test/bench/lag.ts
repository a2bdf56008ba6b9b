export async function measureLag(_options: { main?: string; say: (line: string) => void }): Promise<void> {}
