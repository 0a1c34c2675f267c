package convert

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// curlValues are flags of curl with a value that mean something for a load test; curlSkip
// those that mean nothing, with a value or without.
var (
	curlValues = map[string]string{
		"-X": "method", "--request": "method", "-H": "header", "--header": "header", "-d": "data", "--data": "data", "--data-raw": "data", "--data-binary": "data",
		"--data-ascii": "data", "--data-urlencode": "data", "--json": "json", "-u": "user", "--user": "user", "--url": "url", "-A": "agent", "--user-agent": "agent",
		"-e": "referer", "--referer": "referer",
	}
	curlSkip = map[string]bool{
		"-s": false, "--silent": false, "-S": false, "--show-error": false, "-i": false, "--include": false, "-v": false, "--verbose": false, "-k": false, "--insecure": false,
		"--compressed": false, "-f": false, "--fail": false, "-L": false, "--location": false, "--http1.1": false, "--http2": false, "-g": false, "-N": false,
		"-o": true, "--output": true, "-m": true, "--max-time": true, "--connect-timeout": true, "-b": true, "--cookie": true, "-c": true, "--cookie-jar": true, "-w": true, "--write-out": true, "--retry": true,
	}
)

// Curl reads a command line of curl, as a browser copies it.
func Curl(text string) (Request, error) {
	args, err := words(text)
	if err != nil {
		return Request{}, err
	}
	if len(args) == 0 || args[0] != "curl" && !strings.HasSuffix(args[0], "/curl") {
		return Request{}, errors.New("want a command that begins with curl")
	}
	c := command{r: Request{Headers: map[string]string{}}}
	for args = args[1:]; len(args) > 0; {
		if args, err = c.take(args); err != nil {
			return c.r, err
		}
	}
	return c.request()
}

// command is what was read of a command line of curl.
type command struct {
	r         Request
	data      []string
	kind      string // content type of data
	get, head bool
}

// take reads the next argument, with its value if it has one, and returns what follows.
func (c *command) take(args []string) ([]string, error) {
	w, rest := args[0], args[1:]
	if !strings.HasPrefix(w, "-") || w == "-" {
		if c.r.URL != "" {
			return nil, fmt.Errorf("two URLs: %.60q and %.60q", c.r.URL, w)
		}
		c.r.URL = w
		return rest, nil
	}
	name, value, joined := flag(w)
	if !joined && len(w) > 2 && w[1] != '-' && strings.Trim(w[1:], "sSivkfLgN") == "" {
		return rest, nil // several of those that mean nothing
	}
	switch name {
	case "-G", "--get":
		c.get = true
		return rest, nil
	case "-I", "--head":
		c.head = true
		return rest, nil
	}
	what, takes := curlValues[name]
	skips, skip := curlSkip[name]
	if !takes && !skip {
		return nil, fmt.Errorf("the flag %.40q of curl is not known here", w)
	}
	if (takes || skips) && !joined {
		if len(rest) == 0 {
			return nil, fmt.Errorf("%s needs a value", name)
		}
		value, rest = rest[0], rest[1:]
	}
	return rest, c.set(what, name, value)
}

// flag takes a flag apart that is joined with its value.
func flag(w string) (name, value string, joined bool) {
	if strings.HasPrefix(w, "--") {
		return strings.Cut(w, "=")
	}
	if len(w) > 2 && curlValues[w[:2]] != "" {
		return w[:2], w[2:], true
	}
	return w, "", false
}

// set takes in the value of a flag; what is as curlValues has it.
func (c *command) set(what, name, value string) error {
	switch what {
	case "method":
		c.r.Method = strings.ToUpper(value)
	case "url":
		c.r.URL = value
	case "header":
		k, v, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("%.60q is no header", value)
		}
		c.r.Headers[strings.TrimSpace(k)] = strings.TrimSpace(v)
	case "agent":
		c.r.Headers["User-Agent"] = value
	case "referer":
		c.r.Headers["Referer"] = value
	case "user":
		c.r.User = value
	case "data", "json":
		return c.add(what, name, value)
	}
	return nil
}

// add takes in a piece of the body.
func (c *command) add(what, name, value string) error {
	if strings.HasPrefix(value, "@") && name != "--data-raw" {
		return fmt.Errorf("%s %.60q is a file: write what it holds into the scenario as body", name, value)
	}
	if name == "--data-urlencode" {
		value = urlEncoded(value)
	}
	if c.data = append(c.data, value); c.kind == "" {
		c.kind = "application/x-www-form-urlencoded"
	}
	if what == "json" {
		c.kind = "application/json"
		c.r.Headers["Accept"] = c.kind
	}
	return nil
}

// urlEncoded encodes "VALUE", "=VALUE" or "NAME=VALUE" as curl does.
func urlEncoded(text string) string {
	name, value, named := strings.Cut(text, "=")
	switch {
	case !named:
		return url.QueryEscape(text)
	case name == "":
		return url.QueryEscape(value)
	}
	return name + "=" + url.QueryEscape(value)
}

// request is the request that the command makes.
func (c *command) request() (Request, error) {
	r := c.r
	if r.URL == "" {
		return r, errors.New("there is no URL")
	}
	if !strings.Contains(r.URL, "://") {
		r.URL = "http://" + r.URL
	}
	switch {
	case c.get && len(c.data) > 0:
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		r.URL += sep + strings.Join(c.data, "&")
	case len(c.data) > 0:
		if r.Body = strings.Join(c.data, "&"); c.kind == "application/json" {
			r.Body = strings.Join(c.data, "")
		}
		if r.Method == "" {
			r.Method = "POST"
		}
		if !hasHeader(r.Headers, "Content-Type") {
			r.Headers["Content-Type"] = c.kind
		}
	}
	switch {
	case r.Method != "":
	case c.head:
		r.Method = "HEAD"
	default:
		r.Method = "GET"
	}
	return r, nil
}

func hasHeader(h map[string]string, name string) bool {
	for k := range h {
		if strings.EqualFold(k, name) {
			return true
		}
	}
	return false
}

// words takes a command line apart as a shell does; $'...' as bash does.
func words(text string) ([]string, error) {
	var out []string
	var b strings.Builder
	in := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] == '\n' {
				continue
			}
			b.WriteByte(text[i])
			in = true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				out = append(out, b.String())
				b.Reset()
			}
			in = false
		case c == '\'' || c == '"' || c == '$' && i+1 < len(text) && text[i+1] == '\'':
			bash := c == '$'
			if bash {
				i++
			}
			n, err := quoted(&b, text[i:], bash)
			if err != nil {
				return nil, err
			}
			i += n - 1
			in = true
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if in {
		out = append(out, b.String())
	}
	return out, nil
}

// quoted writes what text, which begins with a quote, has in it up to the next one, and
// returns how much of text that is, both quotes included.
func quoted(b *strings.Builder, text string, bash bool) (int, error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i + 1, nil
		case text[i] == '\\' && i+1 < len(text) && (bash || quote == '"'):
			n, err := escape(b, text[i+1:], bash)
			if err != nil {
				return 0, err
			}
			i += n
		default:
			b.WriteByte(text[i])
		}
	}
	return 0, errors.New("a quote is not closed")
}

// escape writes what a backslash and what follows it mean within quotes, and returns how
// much of text that is.
func escape(b *strings.Builder, text string, bash bool) (int, error) {
	switch next := text[0]; {
	case bash && next == 'n':
		b.WriteByte('\n')
	case bash && next == 'r':
		b.WriteByte('\r')
	case bash && next == 't':
		b.WriteByte('\t')
	case bash && next == 'u' && len(text) > 4:
		var r rune
		if _, err := fmt.Sscanf(text[1:5], "%04x", &r); err != nil {
			return 0, fmt.Errorf("\\u%s is no character", text[1:5])
		}
		b.WriteRune(r)
		return 5, nil
	case bash || next == '"' || next == '\\' || next == '$' || next == '`':
		b.WriteByte(next)
	case next == '\n':
	default:
		b.WriteByte('\\')
		b.WriteByte(next)
	}
	return 1, nil
}
