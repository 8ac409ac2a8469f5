// Events that are a unit of seconds apart, in the order in which they come.
'use strict';
const unit = Number(process.argv[2]) * 1000;
const begin = process.hrtime.bigint();
let ticks = 0;
const ticker = setInterval(() => {
    ticks++;
    console.log(`tick ${ticks}`);
    if (ticks === 24) {
        clearInterval(ticker);
        console.log(`passed=${Number(process.hrtime.bigint() - begin) / 1e9}`);
    }
}, unit);
setTimeout(() => console.log('timer'), unit * 1.5);
setTimeout(() => console.log('deadline'), unit * 5.5);
