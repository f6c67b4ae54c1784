"""Ask, answer, learn – on arrays, without a database. A study is this loop plus a store, an experiment this loop plus a virtual annotator."""
