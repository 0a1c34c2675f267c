package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/load"
)

// Request is one that another tool describes.
type Request struct {
	Name    string
	Method  string
	URL     string
	Headers map[string]string
	Body    string
	User    string // NAME:PASSWORD, of curl -u
	Think   time.Duration
}

// methods are those that a step can have.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

// secretWords are in the names of headers that are secrets of whoever recorded the requests.
var secretWords = []string{"authorization", "token", "secret", "api-key", "apikey", "password", "session", "signature", "credential"}

// secretOf is the name of the secret that a header is, "": it is none.
func secretOf(header string) string {
	if !slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(header, w) }) {
		return ""
	}
	return strings.Map(func(c rune) rune {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return '-'
		}
		return c
	}, strings.TrimPrefix(header, "x-"))
}

// unsaid are headers that a client sets itself.
var unsaid = map[string]bool{
	"host": true, "content-length": true, "connection": true, "transfer-encoding": true, "accept-encoding": true, "keep-alive": true, "te": true, "upgrade": true,
	"upgrade-insecure-requests": true, "cookie": true, "proxy-connection": true,
}

// quote is a text as TOML has it, and as a template means it.
func quote(s string) string {
	s = strings.ReplaceAll(s, "${", `${pick("$")}{`)
	return plain(s)
}

func plain(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // a string always encodes
		return `""`
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

// Write makes a scenario. Notes say what was left out, or is to be filled in.
func Write(name string, list []Request) (text string, notes []string, err error) {
	if len(list) == 0 {
		return "", nil, errors.New("there is no request")
	}
	if len(list) > load.MaxSteps {
		notes = append(notes, fmt.Sprintf("only the first %d of %d requests were taken: a scenario has no more steps", load.MaxSteps, len(list)))
		list = list[:load.MaxSteps]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name = %s\nthresholds = [\"rate(failed)<1%%\"]\n\n[traffic.main]\nflow = \"main\"\nusers = 1\nfor = \"30s\"\n", plain(name))
	secrets := map[string]bool{}
	names := map[string]int{}
	for i, r := range list {
		if r.Method == "" {
			r.Method = "GET"
		}
		if !slices.Contains(methods, r.Method) {
			return "", nil, fmt.Errorf("request %d: %.20q is no method of a step", i+1, r.Method)
		}
		if _, _, err := load.SplitURL(r.URL); err != nil {
			return "", nil, fmt.Errorf("request %d: %w", i+1, err)
		}
		step := stepName(r)
		if names[step]++; names[step] > 1 {
			step = fmt.Sprintf("%s-%d", step, names[step])
		}
		fmt.Fprintf(&b, "\n[[flow.main]]\nname = %s\n%s = %s\n", plain(step), strings.ToLower(r.Method), quote(r.URL))
		headers := map[string]string{}
		for k, v := range r.Headers {
			low := strings.ToLower(k)
			switch secret := secretOf(low); {
			case unsaid[low] || strings.HasPrefix(low, ":") || strings.HasPrefix(low, "sec-"):
			case secret != "":
				secrets[secret] = true
				headers[k] = `"${secret.` + secret + `}"`
			default:
				headers[k] = quote(v)
			}
		}
		if len(headers) > 0 {
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(headers)) {
				parts = append(parts, plain(k)+" = "+headers[k])
			}
			fmt.Fprintf(&b, "headers = { %s }\n", strings.Join(parts, ", "))
		}
		if r.User != "" {
			user, _, _ := strings.Cut(r.User, ":")
			secrets["password"] = true
			fmt.Fprintf(&b, "auth = { basic = { user = %s, password = \"${secret.password}\" } }\n", quote(user))
		}
		if r.Body != "" {
			fmt.Fprintf(&b, "body = %s\n", quote(r.Body))
		}
		if r.Think > 0 {
			fmt.Fprintf(&b, "think = \"%dms\"\n", r.Think.Milliseconds())
		}
	}
	for _, s := range slices.Sorted(maps.Keys(secrets)) {
		notes = append(notes, fmt.Sprintf("${secret.%s} stands for what is not to be in a scenario: put it into a file of that name, in --secrets or load.secrets_dir", s))
	}
	return b.String(), notes, nil
}

// stepName is one by method and path.
func stepName(r Request) string {
	if r.Name != "" {
		return r.Name
	}
	_, target, err := load.SplitURL(r.URL)
	if err != nil {
		return "step"
	}
	path, _, _ := strings.Cut(target, "?")
	parts := strings.FieldsFunc(path, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
	name := strings.ToLower(r.Method) + "-" + strings.Join(parts[max(0, len(parts)-2):], "-")
	return strings.TrimSuffix(name[:min(len(name), 48)], "-")
}
