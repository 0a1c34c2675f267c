package cli

import (
	"cmp"
	"os"
	"strings"

	"golang.org/x/term"
)

// Screen is the terminal that a command may draw on; ok is false where there is none,
// or one that only prints.
func (a *App) Screen() (in, out *os.File, ok bool) {
	w := a.Out
	if c, checked := w.(*CheckedWriter); checked {
		w = c.W
	}
	in, ok = a.In.(*os.File)
	out, drawn := w.(*os.File)
	kind := a.Getenv("TERM")
	ok = ok && drawn && a.OutWidth > 0 && kind != "" && kind != "dumb" && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
	return in, out, ok
}

// UTF8 reports whether the terminal shows more than ASCII.
func (a *App) UTF8() bool {
	locale := strings.ToUpper(cmp.Or(a.Getenv("LC_ALL"), a.Getenv("LC_CTYPE"), a.Getenv("LANG")))
	return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}
