package topics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/docs"
)

// Kinds of topics that the pages do not have.
const (
	Key      = "key"
	ExitCode = "exit code"
)

// All are those of the pages, the keys and the exit codes.
func All() []docs.Topic {
	out := docs.Topics()
	for _, k := range config.Keys() {
		applied := "takes a restart"
		if k.Live {
			applied = "applied by a reload"
		}
		out = append(out, docs.Topic{Name: k.Name, Kind: Key, Doc: "docs/config.md", Text: fmt.Sprintf(
			"%s\n\n| | |\n|---|---|\n| Default | %s |\n| Environment | %s |\n| A change | %s |", strings.Join(k.Doc, "\n"), k.Default, k.Env, applied)})
	}
	for _, e := range Exits() {
		text := e.Text + "."
		if e.Code <= 3 {
			text += "\n\n" + CheckExits
		}
		out = append(out, docs.Topic{Name: fmt.Sprint(e.Code), Kind: ExitCode, Doc: "docs/cli.md", Text: text})
	}
	return out
}

// Named are the topics that a word means: a name in whatever case, an alert without its
// first syllable, a series of a metric, the variable of a key.
func Named(all []docs.Topic, word string) []docs.Topic {
	word = strings.ToLower(word)
	series := word
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return slices.DeleteFunc(slices.Clone(all), func(t docs.Topic) bool {
		name := strings.ToLower(t.Name)
		switch t.Kind {
		case docs.Alert:
			return name != word && name != "skein"+word
		case docs.Metric:
			return name != word && name != series
		case Key:
			return name != word && strings.ToLower(config.Env(t.Name)) != word
		}
		return name != word
	})
}
