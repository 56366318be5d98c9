// Glue between Go and jsonata.js: compile, inspect, evaluate. No state.
(function (jsonata, host) {
  'use strict';
  // Nodes that read the evaluation context directly. There is none in Step
  // Functions, so such an expression could only ever see "undefined".
  function readsContext(n) {
    if (!n || typeof n !== 'object') return null;
    switch (n.type) {
      case 'name': return "the field name '" + n.value + "'";
      case 'wildcard': return "'*'";
      case 'descendant': return "'**'";
      case 'parent': return "'%'";
      case 'variable': return n.value === '' ? "'$'" : n.value === '$' ? "'$$'" : null;
      case 'path': return readsContext(n.steps[0]);
      case 'binary': return readsContext(n.lhs) || readsContext(n.rhs);
      case 'unary':
        if (n.value === '{') return first(n.lhs.map(function (p) { return readsContext(p[0]) || readsContext(p[1]); }));
        if (n.value === '[') return any(n.expressions);
        return readsContext(n.expression);
      case 'function': case 'partial': return readsContext(n.procedure) || any(n.arguments);
      case 'lambda': return readsContext(n.body);
      case 'condition': return readsContext(n.condition) || readsContext(n.then) || readsContext(n.else);
      case 'block': return any(n.expressions);
      case 'bind': return readsContext(n.rhs);
      case 'apply': return readsContext(n.lhs) || readsContext(n.rhs);
    }
    return null;
  }
  function first(list) { for (var i = 0; i < list.length; i++) if (list[i]) return list[i]; return null; }
  function any(list) { return first((list || []).map(readsContext)); }

  function inspect(ast) {
    var seen = new Set(), used = {}, bound = {}, called = {}, states = {}, allStates = false;
    function walk(n, viaPath) {
      if (!n || typeof n !== 'object' || seen.has(n)) return;
      seen.add(n);
      if (n instanceof RegExp) return;
      if (Array.isArray(n)) { n.forEach(function (c) { walk(c); }); return; }
      if (n.type === 'bind' && n.lhs) bound[n.lhs.value] = true;
      if (n.type === 'lambda') n.arguments.forEach(function (a) { bound[a.value] = true; });
      if (typeof n.focus === 'string') bound[n.focus] = true;
      if (n.index && typeof n.index === 'object' && n.index.value) bound[n.index.value] = true;
      if (typeof n.index === 'string') bound[n.index] = true;
      if ((n.type === 'function' || n.type === 'partial') && n.procedure && n.procedure.type === 'variable') called[n.procedure.value] = true;
      if (n.type === 'path' && n.steps[0].type === 'variable' && n.steps[0].value === 'states' && !n.steps[0].predicate &&
          n.steps.length > 1 && n.steps[1].type === 'name') {
        states[n.steps[1].value] = true;
        used.states = true;
        seen.add(n.steps[0]);
      }
      if (n.type === 'variable') {
        used[n.value] = true;
        if (n.value === 'states') allStates = true;
      }
      Object.keys(n).forEach(function (k) { if (k !== 'signature') walk(n[k]); });
    }
    walk(ast);
    // A plain path: a variable, then nothing but names.
    var plain = null;
    function bare(n, type) {
      // Own keys only: nodes inherit the parser's symbols.
      return n.type === type && Object.keys(n).every(function (k) { return k === 'type' || k === 'value' || k === 'position'; });
    }
    if (bare(ast, 'variable')) plain = [ast.value];
    else if (ast.type === 'path' && !ast.group && !ast.keepSingletonArray && !ast.tuple && bare(ast.steps[0], 'variable') &&
             ast.steps.slice(1).every(function (s) { return bare(s, 'name'); }))
      plain = ast.steps.map(function (s) { return s.value; });
    return JSON.stringify({
      used: Object.keys(used), bound: Object.keys(bound), called: Object.keys(called),
      states: Object.keys(states), allStates: allStates, context: readsContext(ast), plain: plain
    });
  }

  function fail(code, token, message) { return { code: code, token: token, message: message }; }

  var extra = {
    partition: [function (list, size) {
      if (list === undefined) return undefined;
      if (!Number.isInteger(size) || size < 1) throw fail('T0410', 'partition', 'The size of $partition must be a positive integer');
      var out = [];
      for (var i = 0; i < list.length; i += size) out.push(list.slice(i, i + size));
      return out;
    }, '<an:a>'],
    range: [function (from, to, step) {
      if (![from, to, step].every(Number.isInteger)) throw fail('T0410', 'range', 'The arguments of $range must be integers');
      if (step === 0) throw fail('T0410', 'range', 'The step of $range must not be 0');
      var n = Math.floor((to - from) / step) + 1;
      if (n > 1000) throw fail('D3137', 'range', '$range gives at most 1000 items');
      var out = [];
      for (var i = 0; i < n; i++) out.push(from + i * step);
      return out;
    }, '<nnn:a>'],
    hash: [function (text, algorithm) {
      if (text === undefined) return undefined;
      var out = host.hash(text, algorithm);
      if (out === '') throw fail('D3137', 'hash', '$hash knows MD5, SHA-1, SHA-256, SHA-384 and SHA-512');
      return out;
    }, '<ss:s>'],
    random: [function (seed) {
      if (seed === undefined) return host.random();
      if (!Number.isInteger(seed)) throw fail('T0410', 'random', 'The seed of $random must be an integer');
      return host.randomSeeded(seed);
    }, '<n?:n>'],
    uuid: [function () { return host.uuid(); }, '<:s>'],
    parse: [function (text) {
      if (text === undefined) return undefined;
      try { return JSON.parse(text); } catch (e) { throw fail('D3137', 'parse', '$parse: the text is not JSON'); }
    }, '<s:x>']
  };

  return {
    compile: function (source) {
      var expression = jsonata(source);
      for (var name in extra) expression.registerFunction(name, extra[name][0], extra[name][1]);
      expression.assign('eval', undefined);
      return expression;
    },
    inspect: function (expression) { return inspect(expression.ast()); },
    evaluate: function (expression, bindings, done) {
      expression.evaluate(undefined, bindings).then(function (v) { done(v, undefined); }, function (e) { done(undefined, e); });
    },
    describe: function (e) {
      if (e && typeof e === 'object') return [String(e.code || ''), String(e.message || e)];
      return ['', String(e)];
    },
    parse: JSON.parse,
    names: Object.keys(extra)
  };
})
