// Package man writes the manual pages: skein(8), a page for each command below
// it, and skein.toml(5), out of the commands' own help and the table of keys. The
// hidden command `skein man DIR` puts them into a directory; the same program
// and date give the same bytes.
//
// Non-goals: docs/cli.md and docs/config.md, which are made in the same way but
// for readers of Markdown; a page for each command of a group.
//
// Goroutines: none.
package man
