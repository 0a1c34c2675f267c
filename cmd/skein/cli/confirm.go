package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Confirm asks on a terminal whether to do what the phrase says, like "remove n4
// from the cluster". Elsewhere nobody could answer: there --yes says so beforehand,
// and without it nothing is done.
func (a *App) Confirm(format string, args ...any) error {
	if a.yes {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if a.ErrWidth == 0 {
		return Usagef("nothing done: this would %s", what).WithHint("give --yes to do it without being asked")
	}
	fmt.Fprintf(a.Err, "This will %s. Go on? [y/N] ", what)
	line, err := bufio.NewReader(io.LimitReader(a.In, 64)).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(a.Err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return Failf(ExitFailed, "nothing done")
}
