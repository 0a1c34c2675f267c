package cli

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/internal/spelling"
)

// IsFlagError reports whether flags of a command line cannot be read.
func IsFlagError(err error) bool {
	_, unknown := errors.AsType[*pflag.NotExistError](err)
	_, alone := errors.AsType[*pflag.ValueRequiredError](err)
	_, wrong := errors.AsType[*pflag.InvalidValueError](err)
	_, no := errors.AsType[*pflag.InvalidSyntaxError](err)
	return unknown || alone || wrong || no
}

// FlagError is a usage error of cmd for err, with the flag that was probably meant, or what
// its value may be.
func FlagError(cmd *cobra.Command, err error) error {
	e := Usagef("%s", err)
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		e = wrongValue("--"+wrong.GetFlag().Name, wrong)
	}
	if typed, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := Nearest(typed, known); near != "" {
			return e.WithHint("did you mean --%s? See `%s --help`", near, cmd.CommandPath())
		}
	}
	return e.WithHint("see `%s --help`", cmd.CommandPath())
}

// wrongValue says what is wrong with a value that was given as what.
func wrongValue(what string, err *pflag.InvalidValueError) *Error {
	if want := wanted[err.GetFlag().Value.Type()]; want != "" {
		return Usagef("%s is %q, want %s", what, err.GetValue(), want)
	}
	return Usagef("%s is %q: %s", what, err.GetValue(), err.Unwrap())
}

// wanted is what values of a type are.
var wanted = map[string]string{
	"bool": "true or false", "duration": "a time like 500ms, 30s or 2h", "int": "a whole number", "uint": "a whole number", "uint64": "a whole number",
	"float64": "a number", "stringToString": "NAME=VALUE",
}

// AskedForm is the form of the result that a command line asks for, of which no more need
// be read: what is wrong with it is told in that form, too.
func AskedForm(args []string) string {
	form := ""
	for i, word := range args {
		if word == "--" {
			break
		}
		if (word == "-o" || word == "--output") && i+1 < len(args) {
			form = args[i+1]
		}
		for _, flag := range []string{"--output=", "-o=", "-o"} {
			if value, is := strings.CutPrefix(word, flag); is && value != "" {
				form = value
				break
			}
		}
	}
	return form
}

// Nearest is the known word that is most like one that was typed, or "" if none is
// close: at most a letter in three is wrong, or it is the beginning of one of them alone.
func Nearest(typed string, known []string) string {
	if near := spelling.Nearest(typed, known, min(3, utf8.RuneCountInString(typed)/3)); near != "" {
		return near
	}
	return nearestLonger(typed, known)
}

// nearestLonger is the only known word that begins with what was typed.
func nearestLonger(typed string, known []string) string {
	const least = 3 // letters say what is meant
	longer := slices.DeleteFunc(slices.Clone(known), func(word string) bool { return !strings.HasPrefix(word, typed) })
	if len(longer) != 1 || utf8.RuneCountInString(typed) < least {
		return ""
	}
	return longer[0]
}
