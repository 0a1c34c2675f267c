package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Confirm asks on a terminal whether to go on. Elsewhere nobody could answer:
// there --yes says so beforehand.
func (a *App) Confirm(what string) error {
	if a.yes {
		return nil
	}
	if a.ErrWidth == 0 {
		return Usagef("%s", lowerFirst(what)).WithHint("give --yes to do that without being asked")
	}
	fmt.Fprintf(a.Err, "%s Go on? [y/N] ", what)
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
