package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
)

func TestFind(t *testing.T) {
	list := []api.Named{
		{"abc1", "nightly", "user:ann"}, {"abc2", "nightly", "user:ben"}, {"abd", "abc1", "user:ann"}, {"xyz", "abd", "user:ann"}, {"nightlyx", "", "user:ann"},
	}
	for i := range 20 {
		list = append(list, api.Named{ID: fmt.Sprintf("many%02d", i), Owner: "user:ann"})
	}
	for _, c := range []struct{ text, owner, want, wrong string }{
		{"abc2", "", "abc2", ""},
		{"abc1", "", "abc1", ""}, // an id before a name
		{"abd", "", "abd", ""},
		{"xy", "", "xyz", ""},
		{"nightly", "user:ann", "abc1", ""}, // a name before the beginning of an id
		{"nightly", "", "", "several tests are called or begin with \"nightly\": abc1, abc2"},
		{"abc2", "user:ann", "", "no test is called or begins with \"abc2\""}, // another's is not there
		{"ab", "user:ben", "abc2", ""},
		{"many", "", "", "many07, and 12 more"},
		{"nothing", "", "", "no test is called or begins with"},
	} {
		got, err := api.Find(list, c.text, c.owner, "test", "tests", "skein test ls")
		if p := (*api.Problem)(nil); c.wrong != "" && (!errors.As(err, &p) || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%q of %q: %v, want %q", c.text, c.owner, err, c.wrong)
		}
		if got != c.want || (c.wrong == "") != (err == nil) {
			t.Errorf("%q of %q: %q, %v; want %q", c.text, c.owner, got, err, c.want)
		}
	}
}
