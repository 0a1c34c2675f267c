package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagError is a usage error of cmd for err, with the flag that was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	e := Usagef("%s", err)
	if typed, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := Nearest(typed, known); near != "" {
			return e.WithHint("did you mean --%s? See `%s --help`", near, cmd.CommandPath())
		}
	}
	return e.WithHint("see `%s --help`", cmd.CommandPath())
}

// Nearest is the known word that is most like one that was typed, or "" if none is
// close: at most a letter in three is wrong.
func Nearest(typed string, known []string) string {
	best, least := "", min(3, utf8.RuneCountInString(typed)/3)+1
	for _, word := range known {
		if d := distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance counts the letters that are wrong, missing, too many, or swapped with
// their neighbour.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
