package bundle

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/rule"
)

// Max bounds an encoded bundle, in bytes.
const Max = 64 << 20

// version is that of the document.
const version = 1

// Bundle is a scenario and the files that it names, or a URL and what is to be done with
// it.
type Bundle struct {
	Version  int               `json:"version"`
	Name     string            `json:"name"` // of the file, for faults
	Scenario string            `json:"scenario,omitempty"`
	URL      *URL              `json:"url,omitempty"`
	Vars     map[string]string `json:"vars,omitempty"`  // in place of those in the scenario
	Files    map[string][]byte `json:"files,omitempty"` // rows and keys, by their names in the scenario
}

// URL is a run of one request.
type URL struct {
	URL        string   `json:"url"`
	Rate       float64  `json:"rate,omitempty"` // requests a second; 0: each user as fast as it can
	Users      int      `json:"users"`
	Seconds    float64  `json:"seconds"`
	Thresholds []string `json:"thresholds,omitempty"`
}

// Needs lists the files that a scenario names.
func Needs(s *load.Scenario) []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, d := range s.Data {
		add(d.File)
	}
	for _, name := range s.Files() {
		add(name)
	}
	add(s.HTTP.TLS.CA)
	add(s.HTTP.TLS.Cert)
	add(s.HTTP.TLS.Key)
	return out
}

// Parse reads the scenario, with the variables of the bundle.
func (b *Bundle) Parse() (*load.Scenario, error) {
	if b.URL != nil {
		length := time.Duration(b.URL.Seconds * float64(time.Second))
		if !(b.URL.Rate >= 0 && b.URL.Rate <= load.MaxRate) || b.URL.Users < 0 || b.URL.Users > load.MaxUsers || length < time.Second || length > load.MaxTime {
			return nil, fmt.Errorf("a rate of %g, %d users or %s is out of bounds", b.URL.Rate, b.URL.Users, length)
		}
		s, err := load.FromURL(b.URL.URL, b.URL.Rate, b.URL.Users, length)
		if err != nil {
			return nil, err
		}
		for _, t := range b.URL.Thresholds {
			s.Thresholds = append(s.Thresholds, load.Threshold{When: t})
		}
		return s, nil
	}
	s, err := load.Parse(b.Scenario)
	if err != nil {
		return nil, err
	}
	for name, value := range b.Vars {
		if _, known := s.Vars[name]; !known {
			return nil, fmt.Errorf("the scenario has no variable %q", name)
		}
		s.Vars[name] = value
	}
	return s, nil
}

// Secrets of a host where none are known: they only have to be there to compile.
func anySecret(string) (string, bool) { return "secret", true }

// Compile makes what an engine runs. A nil secret stands for any.
func (b *Bundle) Compile(secret func(string) (string, bool)) (*load.Plan, []*rule.Rule, error) {
	s, err := b.Parse()
	if err != nil {
		return nil, nil, err
	}
	if secret == nil {
		secret = anySecret
	}
	in := load.Inputs{Rows: map[string]*load.Rows{}, Secret: secret, Env: func(string) (string, bool) { return "", false }}
	for _, d := range s.Data {
		text, there := b.Files[d.File]
		if !there {
			return nil, nil, fmt.Errorf("data.%s: the bundle lacks %s", d.Name, path.Base(d.File))
		}
		if in.Rows[d.Name], err = load.ParseRows(d.File, text); err != nil {
			return nil, nil, fmt.Errorf("data.%s: %w", d.Name, err)
		}
	}
	p, err := s.Compile(in)
	if err != nil {
		return nil, nil, err
	}
	rules, err := rule.Compile(p)
	return p, rules, err
}

// Encode writes the document.
func (b *Bundle) Encode() ([]byte, error) {
	b.Version = version
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if len(text) > Max {
		return nil, fmt.Errorf("the scenario and its files have %d bytes together, at most %d are allowed", len(text), Max)
	}
	return text, nil
}

// Decode reads a document.
func Decode(text []byte) (*Bundle, error) {
	b := &Bundle{}
	if len(text) > Max {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(text), Max)
	}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("is no scenario of a load test: %w", err)
	}
	if b.Version != version {
		return nil, fmt.Errorf("is version %d of a bundle, this program knows version %d", b.Version, version)
	}
	if len(b.Scenario) > load.MaxFile || (b.Scenario == "") == (b.URL == nil) {
		return nil, fmt.Errorf("has no scenario, or one of more than %d bytes", load.MaxFile)
	}
	return b, nil
}
