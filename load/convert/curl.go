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
	words, err := words(text)
	if err != nil {
		return Request{}, err
	}
	if len(words) == 0 || words[0] != "curl" && !strings.HasSuffix(words[0], "/curl") {
		return Request{}, errors.New("want a command that begins with curl")
	}
	r := Request{Headers: map[string]string{}}
	var data []string
	get, head, kind := false, false, ""
	for i := 1; i < len(words); i++ {
		w := words[i]
		if !strings.HasPrefix(w, "-") || w == "-" {
			if r.URL != "" {
				return r, fmt.Errorf("two URLs: %.60q and %.60q", r.URL, w)
			}
			r.URL = w
			continue
		}
		name, value, joined := w, "", false
		if strings.HasPrefix(w, "--") {
			if n, v, cut := strings.Cut(w, "="); cut {
				name, value, joined = n, v, true
			}
		} else if len(w) > 2 && curlValues[w[:2]] != "" {
			name, value, joined = w[:2], w[2:], true
		}
		if !joined && len(w) > 2 && w[1] != '-' && strings.Trim(w[1:], "sSivkfLgN") == "" {
			continue // several of those that mean nothing
		}
		what, takes := curlValues[name]
		skips, skip := curlSkip[name]
		switch name {
		case "-G", "--get":
			get = true
			continue
		case "-I", "--head":
			head = true
			continue
		}
		if !takes && !skip {
			return r, fmt.Errorf("the flag %.40q of curl is not known here", w)
		}
		if takes && !joined || skip && skips {
			if i++; i >= len(words) {
				return r, fmt.Errorf("%s needs a value", name)
			}
			value = words[i]
		}
		switch what {
		case "method":
			r.Method = strings.ToUpper(value)
		case "url":
			r.URL = value
		case "header":
			k, v, ok := strings.Cut(value, ":")
			if !ok {
				return r, fmt.Errorf("%.60q is no header", value)
			}
			r.Headers[strings.TrimSpace(k)] = strings.TrimSpace(v)
		case "agent":
			r.Headers["User-Agent"] = value
		case "referer":
			r.Headers["Referer"] = value
		case "user":
			r.User = value
		case "data", "json":
			if strings.HasPrefix(value, "@") && name != "--data-raw" {
				return r, fmt.Errorf("%s %.60q is a file: write what it holds into the scenario as body", name, value)
			}
			if name == "--data-urlencode" {
				k, v, named := strings.Cut(value, "=")
				if value = url.QueryEscape(value); named {
					if value = url.QueryEscape(v); k != "" {
						value = k + "=" + value
					}
				}
			}
			if data = append(data, value); kind == "" {
				kind = "application/x-www-form-urlencoded"
			}
			if what == "json" {
				kind = "application/json"
				r.Headers["Accept"] = kind
			}
		}
	}
	if r.URL == "" {
		return r, errors.New("there is no URL")
	}
	if !strings.Contains(r.URL, "://") {
		r.URL = "http://" + r.URL
	}
	switch {
	case get && len(data) > 0:
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		r.URL += sep + strings.Join(data, "&")
	case len(data) > 0:
		if r.Body = strings.Join(data, "&"); kind == "application/json" {
			r.Body = strings.Join(data, "")
		}
		if r.Method == "" {
			r.Method = "POST"
		}
		if !hasHeader(r.Headers, "Content-Type") {
			r.Headers["Content-Type"] = kind
		}
	}
	if head && r.Method == "" {
		r.Method = "HEAD"
	}
	if r.Method == "" {
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
				c = '\''
			}
			in = true
			closed := false
			for i++; i < len(text); i++ {
				if text[i] == c {
					closed = true
					break
				}
				if text[i] == '\\' && i+1 < len(text) && (bash || c == '"') {
					i++
					switch next := text[i]; {
					case bash && next == 'n':
						b.WriteByte('\n')
					case bash && next == 'r':
						b.WriteByte('\r')
					case bash && next == 't':
						b.WriteByte('\t')
					case bash && next == 'u' && i+4 < len(text):
						var n rune
						if _, err := fmt.Sscanf(text[i+1:i+5], "%04x", &n); err != nil {
							return nil, fmt.Errorf("\\u%s is no character", text[i+1:i+5])
						}
						b.WriteRune(n)
						i += 4
					case bash || next == '"' || next == '\\' || next == '$' || next == '`':
						b.WriteByte(next)
					case next == '\n':
					default:
						b.WriteByte('\\')
						b.WriteByte(next)
					}
					continue
				}
				b.WriteByte(text[i])
			}
			if !closed {
				return nil, errors.New("a quote is not closed")
			}
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
